// Sorts a short batch in tiles. Each tile becomes a source of the merge with the runs that are carried. CUB's sort
// of the whole batch takes a dozen kernels, whatever its length; this is one kernel.
#include <cub/block/block_radix_rank.cuh>
#include <cub/block/block_scan.cuh>
#include <cub/block/radix_rank_sort_operations.cuh>

#include <gpulsm/queries.cuh>

#include "dispatch.cuh"
#include "tuning.cuh"
#include "update/fold.cuh"

namespace gpulsm {

/// Sorts the keys of a block with their places, stably, by 8 bits at a time; CUB's block sort would take 4. In
/// registers each warp has a contiguous part, striped over its lanes.
template <class Key>
struct TileSort {
    static constexpr int BITS = 8;
    using Rank = cub::BlockRadixRankMatchEarlyCounts<SORT_THREADS, BITS, false>;

    /// Ranking and sorted keys take turns in shared memory.
    union Shared {
        typename Rank::TempStorage rank;
        struct {
            Key keys[SORTED_TILE + 1];
            uint16_t places[SORTED_TILE];
        } sorted;
    };

    /// Leaves the sorted keys and places in shared memory. This thread's first one is at `start`.
    static __device__ __forceinline__ void sort(Shared& shared, unsigned start, Key (&keys)[SORT_ITEMS],
                                                uint16_t (&places)[SORT_ITEMS]) {
#pragma unroll 1
        for (int bit = 0; bit < static_cast<int>(sizeof(Key)) * 8; bit += BITS) {
            int ranks[SORT_ITEMS];
            Rank(shared.rank).RankKeys(keys, ranks, cub::BFEDigitExtractor<Key>(bit, BITS));
            __syncthreads();
#pragma unroll
            for (int i = 0; i < SORT_ITEMS; i++) {
                shared.sorted.keys[ranks[i]] = keys[i];
                shared.sorted.places[ranks[i]] = places[i];
            }
            __syncthreads();
#pragma unroll
            for (int i = 0; i < SORT_ITEMS; i++) {
                keys[i] = shared.sorted.keys[start + i * 32];
                places[i] = shared.sorted.places[start + i * 32];
            }
            __syncthreads();
        }
    }
};

/// Sorts a tile of a batch; of equal keys the last one is kept, if values combine (`COMBINES`) with those of all. The rest
/// of the tile is padded with its last key.
template <bool COMBINES, class Key, class Value>
__global__ void __launch_bounds__(SORT_THREADS, COMBINES ? 2 : 0)
sort_tile_kernel(const Key* keys, const Value* values, uint64_t len, Combiner combiner, Key* out_keys, Value* out_values,
                 uint64_t* lens) {
    using Scan = cub::BlockScan<unsigned, SORT_THREADS>;
    __shared__ typename TileSort<Key>::Shared shared;
    __shared__ typename Scan::TempStorage scan;
    constexpr bool STAGED = sizeof(Key) + sizeof(Value) <= 16;  // Values are loaded early if they fit in shared memory.
    __shared__ Value staged[STAGED ? SORTED_TILE : 1];
    uint64_t first = blockIdx.x * static_cast<uint64_t>(SORTED_TILE);
    unsigned tile_len = static_cast<unsigned>(min(static_cast<uint64_t>(SORTED_TILE), len - first));

    // Load the tile, and sort it. The padding sorts last: it is the largest key, and the sort is stable.
    unsigned start = threadIdx.x / 32 * 32 * SORT_ITEMS + threadIdx.x % 32;
    Key mine[SORT_ITEMS];
    uint16_t place[SORT_ITEMS];
#pragma unroll
    for (int i = 0; i < SORT_ITEMS; i++) {
        unsigned index = start + i * 32;
        mine[i] = index < tile_len ? keys[first + index] : HIGHEST<Key>;
        place[i] = static_cast<uint16_t>(index);
        if (STAGED && index < tile_len) staged[index] = value_at(values, first + index);
    }
    TileSort<Key>::sort(shared, start, mine, place);

    // Find which keys are kept; from here on each thread has neighbouring keys.
    unsigned keep = 0;
    Key last = shared.sorted.keys[tile_len - 1];
#pragma unroll
    for (int i = 0; i < SORT_ITEMS; i++) {
        unsigned index = threadIdx.x * SORT_ITEMS + i;
        mine[i] = shared.sorted.keys[index];
        place[i] = shared.sorted.places[index];
        if (index < tile_len && (index + 1 == tile_len || mine[i] != shared.sorted.keys[index + 1])) keep |= 1u << i;
    }
    unsigned before, all;
    if constexpr (COMBINES) {
        __shared__ Segment<Value> of_warps[SORT_THREADS / 32];
        Segment<Value> combined = {}, whole;
        // Combine the values twice: first to learn what the threads before have of this thread's first key.
#pragma unroll 1
        for (bool writes = false;; writes = true) {
#pragma unroll 1
            for (unsigned i = 0; i < SORT_ITEMS && threadIdx.x * SORT_ITEMS + i < tile_len; i++) {
                unsigned from = shared.sorted.places[threadIdx.x * SORT_ITEMS + i], to = combined.ends;
                bool ends = keep >> i & 1;
                Value value = combined.add(STAGED ? staged[from] : values[first + from], ends, combiner);
                if (ends && writes) out_values[first + to] = value;
            }
            if (writes) break;
            combined = scan_segments<SORT_THREADS>(combined, combiner, of_warps, whole);
            before = combined.ends;
        }
        all = whole.ends;
        __syncthreads();  // before places are moved
    } else {
        Scan(scan).ExclusiveSum(__popc(keep), before, all);
    }
    // Compact them, and write them with neighbouring threads writing neighbouring positions.
#pragma unroll
    for (int i = 0; i < SORT_ITEMS; i++) {
        if (!(keep >> i & 1)) continue;
        shared.sorted.keys[before] = mine[i];
        shared.sorted.places[before] = place[i];
        before++;
    }
    __syncthreads();
    for (unsigned to = threadIdx.x; to < tile_len; to += SORT_THREADS) {
        out_keys[first + to] = to < all ? shared.sorted.keys[to] : last;
        if (sizeof(Value) == 1 || COMBINES || to >= all) continue;
        unsigned from = shared.sorted.places[to];
        out_values[first + to] = STAGED ? staged[from] : values[first + from];
    }
    if (threadIdx.x == 0) lens[blockIdx.x] = all;
}

}  // namespace gpulsm

using namespace gpulsm;

/// Returns the number of updates per tile.
extern "C" uint64_t gpulsm_sorted_tile() { return SORTED_TILE; }

/// Sorts a batch in tiles, each at its position in the batch, and writes the length of each without duplicates, whose
/// values are combined, or replaced by the last.
GPULSM_EXPORT gpulsm_sort_tiles(int key_width, int value_width, const void* keys, const void* values, uint64_t len,
                                const Combiner* combiner, void* out_keys, void* out_values, uint64_t* lens,
                                cudaStream_t stream) {
    return with_pair(key_width, value_width, [&](auto key, auto value) -> int {
        using Key = typename decltype(key)::type;
        using Value = typename decltype(value)::type;
        auto kernel = sort_tile_kernel<false, Key, Value>;
        if constexpr (sizeof(Value) > 1) {
            if (combiner->combines()) kernel = sort_tile_kernel<true, Key, Value>;
        }
        kernel<<<blocks_for(len, SORTED_TILE), SORT_THREADS, 0, stream>>>(
            static_cast<const Key*>(keys), static_cast<const Value*>(values), len, *combiner,
            static_cast<Key*>(out_keys), static_cast<Value*>(out_values), lens);
        return cudaGetLastError();
    });
}
