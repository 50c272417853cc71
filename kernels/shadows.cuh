// Which keys of a batch are live in the older runs.
#pragma once

#include "../include/gpulsm/queries.cuh"
#include "filter.cuh"
#include "lanes.cuh"

namespace gpulsm {

/// Keys of a batch, sorted and unique (or in tiles of which each is), and a byte for each: 1 if it is
/// live in the older runs.
template <class Key>
struct Shadows {
    const Key* keys;
    const uint64_t* len;  // null: as many as there can be
    uint64_t bound;
    uint8_t* bytes;
};

/// Looks for the shadows of as many keys as block number `block` has threads for, `LANES` for a key.
///
/// (live - shadow) over all entries of a key adds up to 1 if the key is live and to 0 if it is not:
/// runs can be asked in any order, by as many threads as there are.
template <int LANES, class Key>
__device__ void find_shadows(const Shadows<Key>& batch, const View<Key, Nothing>& older, const Filters& filters,
                             unsigned block) {
    uint64_t thread = block * static_cast<uint64_t>(THREADS) + threadIdx.x;
    uint64_t many = batch.len == nullptr ? batch.bound : *batch.len;
    uint64_t index = thread / LANES;
    bool here = index < many;
    Key key = here ? batch.keys[index] : 0;

    // The keys are sorted, so those of a block lie near each other: two threads for each run find
    // between which outer fences. (With several threads for a key there are too few to be worth it.)
    constexpr bool NEAR = LANES == 1;
    __shared__ uint32_t window[NEAR ? MAX_RUNS : 1][2];
    if (NEAR && threadIdx.x < 2 * older.count) {
        const Run<Key, Nothing>& run = older.runs[threadIdx.x / 2];
        uint64_t first = block * static_cast<uint64_t>(THREADS), end = threadIdx.x % 2;
        Key edge = batch.keys[min(first + end * (THREADS - 1), many - 1)];
        window[threadIdx.x / 2][end] = lower_bound(run.outer, outer_fences(length(run)), edge);
    }
    if (NEAR) __syncthreads();

    int worth = 0;
    FilterPlace in_filters(key);
    for (unsigned at = thread % LANES; here && at < older.count; at += LANES) {
        if (!may_have(filters.words[at], filters.len[at], in_filters)) continue;
        const Run<Key, Nothing>& run = older.runs[at];
        uint64_t position, entries = length(run);
        if constexpr (NEAR) {
            uint32_t from = window[at][0], to = window[at][1];
            uint32_t outer = from + lower_bound(run.outer + from, to - from, key);
            position = outer == outer_fences(entries) ? entries : lower_bound_below(run, key, outer);
        } else {
            position = lower_bound_wide(run, key);
        }
        if (position < entries && __ldg(run.keys + position) == key) {
            worth += is_live(run.marks, position) - is_shadow(run.marks, position);
        }
    }
    worth = add_up_lanes(worth, LANES);
    if (here && thread % LANES == 0) batch.bytes[index] = static_cast<uint8_t>(worth);
}

}  // namespace gpulsm
