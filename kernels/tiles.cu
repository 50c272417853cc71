// Sorting a short batch in tiles: each becomes something to merge, with what is carried, in one pass.
// CUB's sort of the whole takes a dozen kernels, whatever the length; this is one.
#include <cub/block/block_radix_rank.cuh>
#include <cub/block/block_scan.cuh>
#include <cub/block/radix_rank_sort_operations.cuh>

#include "../include/gpulsm/queries.cuh"
#include "dispatch.cuh"
#include "tuning.cuh"

namespace gpulsm {

/// Sorts a tile of a batch; of equal keys the last stays. The rest of the tile's room is filled with its
/// last key. (CUB's sort of a block would do, but takes 4 bits at a time where this takes 8.)
template <class Key, class Value>
__global__ void __launch_bounds__(SORT_THREADS)
sort_tile_kernel(const Key* keys, const Value* values, uint64_t len, Key* out_keys, Value* out_values, uint64_t* lens) {
    constexpr int BITS = 8;
    using Rank = cub::BlockRadixRankMatchEarlyCounts<SORT_THREADS, BITS, false>;
    using Scan = cub::BlockScan<unsigned, SORT_THREADS>;
    __shared__ union {
        typename Rank::TempStorage rank;
        struct {
            Key keys[SORTED_TILE + 1];
            uint16_t places[SORTED_TILE];
        } sorted;
    } room;
    __shared__ typename Scan::TempStorage scan;
    constexpr bool STAGED = sizeof(Value) <= 8;  // There is room for values, too, where they are asked for early.
    __shared__ Value staged[STAGED ? SORTED_TILE : 1];
    uint64_t first = blockIdx.x * static_cast<uint64_t>(SORTED_TILE);
    unsigned here = static_cast<unsigned>(min(static_cast<uint64_t>(SORTED_TILE), len - first));

    // Each warp has a stretch of the tile, its lanes take turns. What is missing comes last: the sort is
    // stable, and nothing is greater than the largest key.
    unsigned start = threadIdx.x / 32 * 32 * SORT_ITEMS + threadIdx.x % 32;
    Key mine[SORT_ITEMS];
    uint16_t place[SORT_ITEMS];
#pragma unroll
    for (int i = 0; i < SORT_ITEMS; i++) {
        unsigned index = start + i * 32;
        mine[i] = index < here ? keys[first + index] : HIGHEST<Key>;
        place[i] = static_cast<uint16_t>(index);
        if (STAGED && index < here) staged[index] = value_at(values, first + index);
    }
#pragma unroll 1
    for (int bit = 0; bit < static_cast<int>(sizeof(Key)) * 8; bit += BITS) {
        int ranks[SORT_ITEMS];
        Rank(room.rank).RankKeys(mine, ranks, cub::BFEDigitExtractor<Key>(bit, BITS));
        __syncthreads();
#pragma unroll
        for (int i = 0; i < SORT_ITEMS; i++) {
            room.sorted.keys[ranks[i]] = mine[i];
            room.sorted.places[ranks[i]] = place[i];
        }
        __syncthreads();
#pragma unroll
        for (int i = 0; i < SORT_ITEMS; i++) {
            mine[i] = room.sorted.keys[start + i * 32];
            place[i] = room.sorted.places[start + i * 32];
        }
        __syncthreads();
    }

    // From here on each thread has neighbours.
    unsigned keep = 0;
    Key last = room.sorted.keys[here - 1];
#pragma unroll
    for (int i = 0; i < SORT_ITEMS; i++) {
        unsigned index = threadIdx.x * SORT_ITEMS + i;
        mine[i] = room.sorted.keys[index];
        place[i] = room.sorted.places[index];
        if (index < here && (index + 1 == here || mine[i] != room.sorted.keys[index + 1])) keep |= 1u << i;
    }
    unsigned before, all;
    Scan(scan).ExclusiveSum(__popc(keep), before, all);
    // Packed together, and written neighbours by neighbours.
#pragma unroll
    for (int i = 0; i < SORT_ITEMS; i++) {
        if (!(keep >> i & 1)) continue;
        room.sorted.keys[before] = mine[i];
        room.sorted.places[before] = place[i];
        before++;
    }
    __syncthreads();
    for (unsigned to = threadIdx.x; to < here; to += SORT_THREADS) {
        out_keys[first + to] = to < all ? room.sorted.keys[to] : last;
        if (sizeof(Value) == 1 || to >= all) continue;
        unsigned from = room.sorted.places[to];
        out_values[first + to] = STAGED ? staged[from] : values[first + from];
    }
    if (threadIdx.x == 0) lens[blockIdx.x] = all;
}

}  // namespace gpulsm

using namespace gpulsm;

/// How many updates a tile has.
extern "C" uint64_t gpulsm_sorted_tile() { return SORTED_TILE; }

/// Sorts a batch in tiles, each where it would be in the batch, and says how long each is then.
GPULSM_EXPORT gpulsm_sort_tiles(int key_width, int value_width, const void* keys, const void* values, uint64_t len,
                                void* out_keys, void* out_values, uint64_t* lens, cudaStream_t stream) {
    return with_pair(key_width, value_width, [&](auto key, auto value) -> int {
        using Key = typename decltype(key)::type;
        using Value = typename decltype(value)::type;
        sort_tile_kernel<<<blocks_for(len, SORTED_TILE), SORT_THREADS, 0, stream>>>(
            static_cast<const Key*>(keys), static_cast<const Value*>(values), len, static_cast<Key*>(out_keys),
            static_cast<Value*>(out_values), lens);
        return cudaGetLastError();
    });
}
