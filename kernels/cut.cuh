// Where a tile of a merge begins in every source.
#pragma once

#include "sources.cuh"
#include "lanes.cuh"

namespace gpulsm {

static_assert(SLACK >= MAX_SOURCES, "a key's entries must fit into the slack of a tile");

/// Where the cut of a tile may be, in every source: nowhere before `start`, and nowhere behind `end`.
struct Windows {
    uint64_t start[MAX_SOURCES], end[MAX_SOURCES];
    // Where the pivot is, or would be, and where what comes after it begins.
    uint64_t place[MAX_SOURCES], past[MAX_SOURCES];
};

/// Sums over sources. For whole warps; every lane gets the answer.
__device__ __forceinline__ uint64_t add_up(const uint64_t* numbers, int count) {
    uint64_t sum = 0;
    for (int i = threadIdx.x % 32; i < count; i += 32) sum += numbers[i];
    return add_up_lanes<32>(sum);
}

/// The source with the widest window. For whole warps; every lane gets the answer.
__device__ __forceinline__ int widest_of(const Windows& windows, int count) {
    uint64_t width = 0;
    int widest = 0;
    for (int source = threadIdx.x % 32; source < count; source += 32) {
        uint64_t own = windows.end[source] - windows.start[source];
        if (own > width) width = own, widest = source;
    }
    for (int step = 16; step > 0; step /= 2) {
        uint64_t other_width = __shfl_xor_sync(~0u, width, step);
        int other = __shfl_xor_sync(~0u, widest, step);
        bool take = other_width > width || (other_width == width && other < widest);
        if (take) width = other_width, widest = other;
    }
    return widest;
}

/// The first position from `start` to `end` whose key is not less than `pivot`. `lanes` neighbours, a
/// power of two, look at a key each at a time: a search for the latency of its few steps, not for its
/// work. All lanes of the warp must call it; those of one search bring the same.
template <class Key>
__device__ uint64_t search_by_lanes(const Key* keys, uint64_t start, uint64_t end, Key pivot, unsigned lanes) {
    unsigned lane = threadIdx.x % lanes, shift = threadIdx.x % 32 - lane;
    auto less_than_pivot = [&](bool less) {
        return __popc(__ballot_sync(~0u, less) >> shift & (~0u >> (32 - lanes)));
    };
    while (__any_sync(~0u, end - start > lanes)) {
        bool done = end - start <= lanes;
        uint64_t piece = (end - start + lanes) / (lanes + 1), last = start + (lane + 1) * piece - 1;
        unsigned before = less_than_pivot(!done && last < end && keys[last] < pivot);
        if (done) continue;
        start += before * piece;
        end = before == lanes ? end : min(end, start + piece - 1);
    }
    return start + less_than_pivot(start + lane < end && keys[start + lane] < pivot);
}

/// Waits for a group of threads: a warp, or the block.
template <int GROUP>
__device__ __forceinline__ void wait_for_group() {
    if constexpr (GROUP == 32) __syncwarp();
    else __syncthreads();
}

/// Finds where a tile begins in every source: at a key such that at most `goal` entries are less, and
/// at most `SLACK` fewer. For a warp, or a whole block, whose threads all come to the same.
template <int GROUP, class Key>
__device__ void cut(const Sources<Key, Nothing>& sources, uint64_t goal, Windows& windows, uint64_t* cuts) {
    int count = sources.count, member = threadIdx.x % GROUP;
    for (int source = member; source < count; source += GROUP) {
        windows.start[source] = 0;
        windows.end[source] = *sources.at[source].len;
    }
    wait_for_group<GROUP>();
    uint64_t below = 0, above = add_up(windows.end, count);  // entries before the windows, and up to their ends
    goal = min(goal, above);
    // As many threads for each source as there are, up to a few.
    int lanes = CUT_LANES;
    while (lanes > 1 && lanes * count > GROUP) lanes /= 2;
    const uint64_t* cut = goal == above ? windows.end : windows.start;
    for (uint32_t round = 0; goal < above && goal - below > SLACK; round++) {
        // A pivot from the widest window: where the goal would be if all were spread evenly; after a
        // while every other time the middle, so that uneven ones cost no more than twice the halving.
        int widest = widest_of(windows, count);
        uint64_t width = windows.end[widest] - windows.start[widest];
        double share = (goal - below - SLACK / 2.0) / static_cast<double>(above - below);
        bool halve = round > 3 && round % 2 == 0;
        uint64_t ahead = halve ? width / 2 : min(static_cast<uint64_t>(width * share), width - 1);
        Key pivot = sources.at[widest].keys[windows.start[widest] + ahead];
        for (int first = 0; first < count; first += GROUP / lanes) {
            int source = first + member / lanes;
            bool mine = source < count;
            const Key* keys = mine ? sources.at[source].keys : nullptr;
            uint64_t end = mine ? windows.end[source] : 0;
            uint64_t place = search_by_lanes(keys, mine ? windows.start[source] : 0, end, pivot, lanes);
            if (mine && member % lanes == 0) {
                windows.place[source] = place;
                windows.past[source] = place + (place < end && keys[place] == pivot);
            }
        }
        wait_for_group<GROUP>();
        uint64_t less = add_up(windows.place, count), up_to = add_up(windows.past, count);
        if (less <= goal && up_to > goal) {  // The goal is among the entries of the pivot itself.
            cut = windows.place;
            break;
        }
        bool ahead_of_goal = less > goal;
        (ahead_of_goal ? above : below) = ahead_of_goal ? less : up_to;
        for (int source = member; source < count; source += GROUP) {
            if (ahead_of_goal) windows.end[source] = windows.place[source];
            else windows.start[source] = windows.past[source];
        }
        wait_for_group<GROUP>();
    }
    for (int source = member; source < count; source += GROUP) cuts[source] = cut[source];
}

}  // namespace gpulsm
