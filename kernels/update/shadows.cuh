// Finds which keys of a batch are shadows: live in the older runs.
#pragma once

#include <gpulsm/queries.cuh>

#include "dispatch.cuh"
#include "run/filter.cuh"
#include "run/warp.cuh"

namespace gpulsm {

/// Keys of a batch, sorted and unique (or in tiles, each of which is), and a byte for each: 1 if it is live in the
/// older runs.
template <class Key>
struct ShadowQueries {
    const Key* keys;
    const uint64_t* len;  // null: `bound`
    uint64_t bound;
    uint8_t* shadows;
};

/// Finds the shadows among the keys of block `block`, with `LANES` threads per key.
///
/// (live - shadow) over all entries of a key is 1 if the key is live and 0 if it is not. So the runs can be
/// searched in any order, and by several threads at once.
template <int LANES, class Key>
__device__ void find_shadows(const ShadowQueries<Key>& batch, const View<Key, Nothing>& older, const Filters& filters,
                             unsigned block) {
    uint64_t thread = block * static_cast<uint64_t>(THREADS) + threadIdx.x;
    uint64_t len = batch.len == nullptr ? batch.bound : *batch.len;
    uint64_t index = thread / LANES;
    bool is_active = index < len;
    Key key = is_active ? batch.keys[index] : 0;

    // The keys are sorted, so those of a block are close together: two threads per run narrow the outer fences to
    // the block's range. (With several threads per key a block has too few keys for that to pay off.)
    constexpr bool NEAR = LANES == 1;
    __shared__ uint32_t window[NEAR ? MAX_RUNS : 1][2];
    if (NEAR && threadIdx.x < 2 * older.count) {
        const RunView<Key, Nothing>& run = older.runs[threadIdx.x / 2];
        uint64_t first = block * static_cast<uint64_t>(THREADS), end = threadIdx.x % 2;
        Key edge = batch.keys[min(first + end * (THREADS - 1), len - 1)];
        window[threadIdx.x / 2][end] = lower_bound(run.outer, outer_fences(length(run)), edge);
    }
    if (NEAR) __syncthreads();

    int sum = 0;
    FilterPlace filter_place(key);
    for (unsigned at = thread % LANES; is_active && at < older.count; at += LANES) {
        if (!may_contain(filters.words[at], filters.len[at], filter_place)) continue;
        const RunView<Key, Nothing>& run = older.runs[at];
        uint64_t position, entries = length(run);
        if constexpr (NEAR) {
            uint32_t from = window[at][0], to = window[at][1];
            uint32_t outer = from + lower_bound(run.outer + from, to - from, key);
            position = outer == outer_fences(entries) ? entries : lower_bound_below(run, key, outer);
        } else {
            position = lower_bound_wide(run, key);
        }
        if (position < entries && read_key(run.keys + position) == key) {
            sum += sum_at(run.marks, position);
        }
    }
    sum = sum_lanes(sum, LANES);
    if (is_active && thread % LANES == 0) batch.shadows[index] = static_cast<uint8_t>(sum);
}

}  // namespace gpulsm
