// Sorting a short batch in tiles: each becomes something to merge, with what is carried, in one pass.
// CUB's sort of the whole takes a dozen kernels, whatever the length; this is one.
#include <cub/block/block_radix_sort.cuh>
#include <cub/block/block_scan.cuh>

#include "../include/gpulsm/queries.cuh"
#include "dispatch.cuh"
#include "tuning.cuh"

namespace gpulsm {

constexpr unsigned SORTED_TILE = THREADS * SORT_ITEMS;

/// Sorts a tile of a batch; of equal keys the last stays. The rest of the tile's room is filled with its
/// last key.
template <class Key, class Value>
__global__ void __launch_bounds__(THREADS)
sort_tile_kernel(const Key* keys, const Value* values, uint64_t len, Key* out_keys, Value* out_values, uint64_t* lens) {
    using Sort = cub::BlockRadixSort<Key, THREADS, SORT_ITEMS, uint16_t>;
    using Scan = cub::BlockScan<unsigned, THREADS>;
    __shared__ union {
        typename Sort::TempStorage sort;
        typename Scan::TempStorage scan;
    } room;
    __shared__ Key firsts[THREADS], last;
    uint64_t first = blockIdx.x * static_cast<uint64_t>(SORTED_TILE);
    unsigned here = static_cast<unsigned>(min(static_cast<uint64_t>(SORTED_TILE), len - first));

    // What is missing comes last: the sort is stable, and nothing is greater than the largest key.
    Key mine[SORT_ITEMS];
    uint16_t place[SORT_ITEMS];
#pragma unroll
    for (int i = 0; i < SORT_ITEMS; i++) {
        unsigned index = threadIdx.x * SORT_ITEMS + i;
        mine[i] = index < here ? keys[first + index] : HIGHEST<Key>;
        place[i] = static_cast<uint16_t>(index);
    }
    Sort(room.sort).Sort(mine, place);
    firsts[threadIdx.x] = mine[0];
    __syncthreads();

    unsigned keep = 0;
#pragma unroll
    for (int i = 0; i < SORT_ITEMS; i++) {
        unsigned index = threadIdx.x * SORT_ITEMS + i;
        if (index + 1 == here) last = mine[i];
        if (index + 1 > here) continue;
        Key next = i + 1 < SORT_ITEMS ? mine[min(i + 1, SORT_ITEMS - 1)] : firsts[min(threadIdx.x + 1, THREADS - 1)];
        if (index + 1 == here || mine[i] != next) keep |= 1u << i;
    }
    unsigned before, all;
    Scan(room.scan).ExclusiveSum(__popc(keep), before, all);
    uint64_t to = first + before;
#pragma unroll
    for (int i = 0; i < SORT_ITEMS; i++) {
        if (!(keep >> i & 1)) continue;
        out_keys[to] = mine[i];
        if constexpr (sizeof(Value) > 1) out_values[to] = values[first + place[i]];
        to++;
    }
    __syncthreads();
    for (unsigned rest = all + threadIdx.x; rest < here; rest += THREADS) out_keys[first + rest] = last;
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
        sort_tile_kernel<<<blocks_for(len, SORTED_TILE), THREADS, 0, stream>>>(
            static_cast<const Key*>(keys), static_cast<const Value*>(values), len, static_cast<Key*>(out_keys),
            static_cast<Value*>(out_values), lens);
        return cudaGetLastError();
    });
}
