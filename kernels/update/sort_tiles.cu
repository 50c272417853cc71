// Sorts a short batch in tiles. Each tile becomes a source of the merge with the runs that are carried. CUB's sort
// of the whole batch takes a dozen kernels, whatever its length; this is one kernel.
#include <cub/block/block_scan.cuh>

#include <gpulsm/queries.cuh>

#include "dispatch.cuh"
#include "run/zeros.cuh"
#include "tuning.cuh"
#include "update/block_sort.cuh"
#include "update/fold.cuh"

namespace gpulsm {

/// What a block that sorts a tile has in shared memory.
template <class Key, class Value>
struct TileShared {
    /// Values are loaded early if they fit.
    static constexpr bool STAGES = sizeof(Key) + sizeof(Value) <= 16;
    using Sort = BlockSort<Key, SORT_THREADS, SORT_ITEMS>;
    using Scan = cub::BlockScan<unsigned, SORT_THREADS, cub::BLOCK_SCAN_WARP_SCANS>;

    typename Sort::Shared sort;
    Key keys[SORTED_TILE];
    typename Scan::TempStorage scan;
    Segment<Value> of_warps[SORT_THREADS / 32];
    Value values[STAGES ? SORTED_TILE : 1];
};

/// Sorts a tile of a batch; of equal keys the last one is kept, if values combine (`COMBINES`) with those of all. The rest
/// of the tile is padded with its last key.
template <bool COMBINES, class Key, class Value>
__global__ void __launch_bounds__(SORT_THREADS, COMBINES ? 2 : 0)
sort_tile_kernel(const Key* keys, const Value* values, uint64_t len, Combiner combiner, Key* out_keys, Value* out_values,
                 uint64_t* lens, Zeros zeros) {
    using Shared = TileShared<Key, Value>;
    extern __shared__ __align__(16) unsigned char memory[];
    auto& shared = *reinterpret_cast<Shared*>(memory);
    uint64_t first = blockIdx.x * static_cast<uint64_t>(SORTED_TILE);
    unsigned tile_len = static_cast<unsigned>(min(static_cast<uint64_t>(SORTED_TILE), len - first));
    auto value_of = [&](unsigned place) { return Shared::STAGES ? shared.values[place] : value_at(values, first + place); };

    wait_for_predecessor();
    zeros.write(blockIdx.x * SORT_THREADS + threadIdx.x, gridDim.x * SORT_THREADS);

    // Load the tile, and sort it.
#pragma unroll
    for (int i = 0; i < SORT_ITEMS; i++) {
        unsigned index = i * SORT_THREADS + threadIdx.x;
        if (index >= tile_len) continue;
        shared.keys[index] = keys[first + index];
        if (Shared::STAGES) shared.values[index] = value_at(values, first + index);
    }
    __syncthreads();
    Shared::Sort::sort(shared.sort, shared.keys, tile_len);
    uint32_t* words = shared.sort.words;
    auto sorted_key = [&](unsigned index) { return shared.keys[Shared::Sort::place(words[index])]; };

    // Find which keys are kept; each thread has neighbouring keys.
    unsigned keep = 0;
    unsigned places[SORT_ITEMS];
    Key last = sorted_key(tile_len - 1);
#pragma unroll
    for (int i = 0; i < SORT_ITEMS; i++) {
        unsigned index = threadIdx.x * SORT_ITEMS + i;
        if (index >= tile_len) continue;
        places[i] = Shared::Sort::place(words[index]);
        if (index + 1 == tile_len || shared.keys[places[i]] != sorted_key(index + 1)) keep |= 1u << i;
    }
    unsigned before, all;
    if constexpr (COMBINES) {
        Segment<Value> combined = {}, whole;
        // Combine the values twice: first to learn what the threads before have of this thread's first key.
#pragma unroll 1
        for (bool writes = false;; writes = true) {
#pragma unroll 1
            for (unsigned i = 0; i < SORT_ITEMS && threadIdx.x * SORT_ITEMS + i < tile_len; i++) {
                unsigned from = Shared::Sort::place(words[threadIdx.x * SORT_ITEMS + i]), to = combined.ends;
                bool ends = keep >> i & 1;
                Value value = combined.add(value_of(from), ends, combiner);
                if (ends && writes) out_values[first + to] = value;
            }
            if (writes) break;
            combined = scan_segments<SORT_THREADS>(combined, combiner, shared.of_warps, whole);
            before = combined.ends;
        }
        all = whole.ends;
    } else {
        typename Shared::Scan(shared.scan).ExclusiveSum(__popc(keep), before, all);
    }
    __syncthreads();  // before places are moved
    // Compact them, and write them with neighbouring threads writing neighbouring positions.
#pragma unroll
    for (int i = 0; i < SORT_ITEMS; i++) {
        if (keep >> i & 1) words[before++] = places[i];
    }
    __syncthreads();
    for (unsigned to = threadIdx.x; to < tile_len; to += SORT_THREADS) {
        out_keys[first + to] = to < all ? sorted_key(to) : last;
        if (sizeof(Value) > 1 && !COMBINES && to < all) out_values[first + to] = value_of(Shared::Sort::place(words[to]));
    }
    if (threadIdx.x == 0) lens[blockIdx.x] = all;
}

}  // namespace gpulsm

using namespace gpulsm;

/// Returns the number of updates per tile.
extern "C" uint64_t gpulsm_sorted_tile() { return SORTED_TILE; }

/// Sorts a batch in tiles, each at its position in the batch, and writes the length of each without duplicates, whose
/// values are combined, or replaced by the last. Zeroes `zero_bytes` bytes besides, a multiple of 16.
GPULSM_EXPORT gpulsm_sort_tiles(int key_width, int value_width, const void* keys, const void* values, uint64_t len,
                                const Combiner* combiner, void* out_keys, void* out_values, uint64_t* lens,
                                void* zeros, uint64_t zero_bytes, cudaStream_t stream) {
    return with_pair(key_width, value_width, [&](auto key, auto value) -> int {
        using Key = typename decltype(key)::type;
        using Value = typename decltype(value)::type;
        auto kernel = sort_tile_kernel<false, Key, Value>;
        if constexpr (sizeof(Value) > 1) {
            if (combiner->combines()) kernel = sort_tile_kernel<true, Key, Value>;
        }
        constexpr size_t BYTES = sizeof(TileShared<Key, Value>);
        static_assert(BYTES <= LEAST_SHARED);
        if (cudaError_t error = allow_shared(kernel, BYTES); error != cudaSuccess) return error;
        return launch_early(kernel, blocks_for(len, SORTED_TILE), SORT_THREADS, BYTES, stream, static_cast<const Key*>(keys),
                            static_cast<const Value*>(values), len, *combiner, static_cast<Key*>(out_keys),
                            static_cast<Value*>(out_values), lens, Zeros(zeros, zero_bytes));
    });
}
