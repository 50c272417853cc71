// Cuts: the position in every source where a tile of a merge begins.
#pragma once

#include "merge/sources.cuh"
#include "run/warp.cuh"

namespace gpulsm {

static_assert(SLACK >= MAX_SOURCES, "a key's entries must fit into the slack of a tile");

/// The keys of a window, as if they were spread evenly.
struct alignas(16) EvenKeys {
    float slope, offset, count;

    /// Returns how many of them are less than one at this distance.
    __device__ __forceinline__ float below(float distance) const {
        return fminf(fmaxf(__fmaf_rn(distance, slope, offset), 0), count);
    }
};

/// The windows of a search for a cut: in every source, the cut lies between `start` and `end`.
template <class Key>
struct Windows {
    const Key* keys[MAX_SOURCES];
    uint64_t start[MAX_SOURCES], end[MAX_SOURCES];
    // The lower bound of the pivot, and the first position after the pivot.
    uint64_t place[MAX_SOURCES], past[MAX_SOURCES];
    Key proposal[MAX_SOURCES];
    EvenKeys even[MAX_SOURCES];  // by their distance from `base`
    Key base, span, last[MAX_SOURCES];
    Key pivot;

    __device__ uint64_t width(int source) const { return end[source] - start[source]; }
};

/// Returns the sum over all sources. For whole warps; every lane gets the result.
__device__ __forceinline__ uint64_t sum_of(const uint64_t* numbers, int count) {
    uint64_t sum = 0;
    for (int i = threadIdx.x % 32; i < count; i += 32) sum += numbers[i];
    return sum_lanes(sum, 32);
}

/// Returns the first position from `start` to `end` whose key is not less than `pivot`. `lanes` neighbouring
/// threads, a power of two, compare one key each per step: this minimises the number of dependent loads, not the
/// work. The position is likely within `spread` of `guess`. All lanes of the warp must call it, and the lanes of
/// one search with the same arguments.
template <class Key>
__device__ uint64_t search_by_lanes(const Key* keys, uint64_t start, uint64_t end, uint64_t guess, uint64_t spread,
                                    Key pivot, unsigned lanes) {
    unsigned lane = threadIdx.x % lanes, shift = threadIdx.x % 32 - lane;
    auto of_lanes = [&](bool less) { return __ballot_sync(~0u, less) >> shift & (~0u >> (32 - lanes)); };
    if (lanes > 1) {
        bool far = end - start > FAR;
        uint64_t low = max(start, guess - min(guess, spread)), high = min(end, guess + spread);
        bool compares = far && (lane == 0 ? low > start : lane == 1 && high < end);
        unsigned less = of_lanes(compares && keys[lane == 0 ? low - 1 : high] < pivot);
        if (far && low > start) (less & 1 ? start : end) = less & 1 ? low : low - 1;
        if (far && high < end) (less & 2 ? start : end) = less & 2 ? high + 1 : high;
    }
    float part = 1.0f / (lanes + 1);
    while (__any_sync(~0u, end - start > lanes)) {
        bool done = end - start <= lanes;
        uint64_t piece = static_cast<uint64_t>((end - start) * part) + 1, last = start + (lane + 1) * piece - 1;
        unsigned before = __popc(of_lanes(!done && last < end && keys[last] < pivot));
        if (done) continue;
        start += before * piece;
        end = before == lanes ? end : min(end, start + piece - 1);
    }
    return start + __popc(of_lanes(start + lane < end && keys[start + lane] < pivot));
}

/// Narrows down where the first position from `start` to `end` is whose key is not less than `pivot`: to where it likely is,
/// within `spread` of `guess`, and there to a part, by one comparison of each of `lanes` neighbouring threads, a power of
/// two. To be called as `search_by_lanes`.
template <class Key>
__device__ __forceinline__ void narrow_by_lanes(const Key* keys, uint64_t& start, uint64_t& end, uint64_t guess,
                                                uint64_t spread, Key pivot, unsigned lanes) {
    unsigned lane = threadIdx.x % lanes, shift = threadIdx.x % 32 - lane;
    uint64_t low = max(start, guess - min(guess, spread)), span = min(end, guess + spread) - low + 1;
    bool narrows = lanes > 1 && span * 2 < end - start;
    float step = __fdividef(static_cast<float>(span), static_cast<float>(lanes - 1));
    // The position behind the key that a lane compares: the first lane one ahead of the likely part, the last one behind it.
    auto behind = [&](unsigned lane) {
        return low + (lane + 1 == lanes ? span : min(static_cast<uint64_t>(step * lane), span));
    };
    uint64_t own = behind(lane);
    bool less = narrows && (own == start || (own <= end && keys[own - 1] < pivot));
    unsigned before = __popc(__ballot_sync(~0u, less) >> shift & (~0u >> (32 - lanes)));
    if (narrows && before > 0) start = behind(before - 1);
    if (narrows && before < lanes) end = behind(before) - 1;
}

/// Synchronizes a group of threads: a warp, some neighbouring warps or the block.
template <int GROUP>
__device__ __forceinline__ void wait_for_group() {
    if constexpr (GROUP == 32) __syncwarp();
    else if constexpr (GROUP == THREADS) __syncthreads();
    else asm volatile("bar.sync %0, %1;" ::"r"(1 + threadIdx.x / GROUP), "n"(GROUP) : "memory");
}

/// Returns how many threads of a group search each of `count` sources: as many as there are. More than `CUT_LANES` of a warp
/// would not pay: all its searches are made at once.
template <int GROUP>
__device__ __forceinline__ int cut_lanes(int count) {
    int lanes = GROUP == 32 ? CUT_LANES : 32;
    while (lanes > 1 && lanes * count > GROUP) lanes /= 2;
    return lanes;
}

/// Returns the distance between keys as a number, and back.
__device__ __forceinline__ float to_float(uint32_t distance) { return __uint2float_rn(distance); }
__device__ __forceinline__ float to_float(uint64_t distance) { return __ull2float_rn(distance); }
__device__ __forceinline__ float to_float(WideKey distance) {
    return __ull2float_rn(static_cast<uint64_t>(distance >> 64)) * 0x1p64f + __ull2float_rn(static_cast<uint64_t>(distance));
}
template <class Key>
__device__ __forceinline__ Key to_distance(float distance) {
    if constexpr (sizeof(Key) == 16) {
        auto high = static_cast<uint64_t>(distance * 0x1p-64f);
        return static_cast<Key>(high) << 64 | static_cast<uint64_t>(distance - __ull2float_rz(high) * 0x1p64f);
    } else {
        return static_cast<Key>(distance);
    }
}

template <class Key>
__device__ __forceinline__ Key least(Key one, Key other) {
    return other < one ? other : one;
}

/// Returns a key such that `ahead` entries in the windows are less, if they are spread evenly in each: whether the windows
/// of sources overlap or follow each other.
template <int GROUP, class Key>
__device__ Key interpolate_pivot(Windows<Key>& windows, int count, float ahead) {
    int member = threadIdx.x % GROUP, lane = threadIdx.x % 32;
    for (int source = member; source < count; source += GROUP) {
        bool is_empty = windows.width(source) == 0;
        windows.proposal[source] = is_empty ? HIGHEST<Key> : windows.keys[source][windows.start[source]];
        windows.last[source] = is_empty ? Key(0) : windows.keys[source][windows.end[source] - 1];
    }
    wait_for_group<GROUP>();
    Key base = HIGHEST<Key>, unreached = HIGHEST<Key>;  // the least key, and the complement of the greatest
    for (int source = lane; source < count; source += 32) {
        base = least(base, windows.proposal[source]);
        unreached = least(unreached, static_cast<Key>(~windows.last[source]));
    }
    base = min_lanes(base);
    Key span = static_cast<Key>(~min_lanes(unreached)) - base;
    for (int source = member; source < count; source += GROUP) {
        uint64_t width = windows.width(source);
        Key first = width == 0 ? base : windows.proposal[source], own = width == 0 ? Key(0) : windows.last[source] - first;
        float slope = static_cast<float>(width) / fmaxf(to_float(own), 0.5f);
        windows.even[source] = {slope, -slope * to_float(static_cast<Key>(first - base)), static_cast<float>(width)};
    }
    if (member == 0) {
        windows.base = base;
        windows.span = span;
    }
    wait_for_group<GROUP>();
    // The lanes of each warp try distances between those that are too short and too long.
    float low = 0, high = to_float(span), less = 0, up_to = 0;
#pragma unroll 1
    for (int pass = 0; pass < PIVOT_PASSES; pass++) {
        float step = (high - low) * (1.0f / 32), mine = low + step * (lane + 1), sum = 0;
#pragma unroll 4
        for (int source = 0; source < count; source++) sum += windows.even[source].below(mine);
        int shorter = min(__popc(__ballot_sync(~0u, sum <= ahead)), 31);
        float before = __shfl_sync(~0u, sum, max(shorter - 1, 0));
        if (shorter > 0) less = before;
        up_to = __shfl_sync(~0u, sum, shorter);
        low += step * shorter;
        high = low + step;
    }
    float rest = up_to > less ? __fdividef(ahead - less, up_to - less) : 0;
    return windows.base + least(to_distance<Key>(low + (high - low) * fminf(fmaxf(rest, 0), 1)), windows.span);
}

/// Returns a key such that about `share` of all entries in the windows are less, if keys are spread in the same way in all
/// windows. Every source proposes such a key of its own; the result is the median of the proposals, weighted by the widths
/// of the windows.
template <int GROUP, class Key>
__device__ Key choose_pivot(Windows<Key>& windows, int count, float share, uint64_t entries) {
    int member = threadIdx.x % GROUP;
    for (int source = member; source < count; source += GROUP) {
        uint64_t width = windows.width(source);
        if (width == 0) continue;
        uint64_t ahead = min(static_cast<uint64_t>(width * share), width - 1);
        windows.proposal[source] = windows.keys[source][windows.start[source] + ahead];
    }
    wait_for_group<GROUP>();
    int lanes = cut_lanes<GROUP>(count), lane = member % lanes;
    for (int first = 0; first < count; first += GROUP / lanes) {
        int source = first + member / lanes;
        bool mine = source < count;
        uint64_t width = mine ? windows.width(source) : 0, before = 0;
        Key own = mine ? windows.proposal[source] : 0;
        for (int other = lane; mine && other < count; other += lanes) {
            uint64_t weight = windows.width(other);
            Key key = windows.proposal[other];
            if (weight > 0 && (key < own || (key == own && other < source))) before += weight;
        }
        before = sum_lanes(before, lanes);
        if (lane == 0 && before <= entries / 2 && entries / 2 < before + width) windows.pivot = own;
    }
    wait_for_group<GROUP>();
    return windows.pivot;
}

/// Finds, in every source, the lower bound of the pivot and the first position after it. About `share` of every window is
/// less than the pivot; if that is 0, what was interpolated.
template <int GROUP, class Key>
__device__ void place_pivot(Windows<Key>& windows, int count, float share, Key pivot) {
    int lanes = cut_lanes<GROUP>(count), member = threadIdx.x % GROUP;
    for (int first = 0; first < count; first += GROUP / lanes) {
        int source = first + member / lanes;
        bool mine = source < count;
        const Key* keys = mine ? windows.keys[source] : nullptr;
        uint64_t start = mine ? windows.start[source] : 0, end = mine ? windows.end[source] : 0;
        float width = end - start, ahead = width * share;
        if (mine && share == 0) ahead = windows.even[source].below(to_float(static_cast<Key>(pivot - windows.base)));
        float variance = max(ahead * (1 - __fdividef(ahead, max(width, 1.0f))), 4.0f);
        // Rounding can make it exceed the width.
        uint64_t guess = start + min(static_cast<uint64_t>(ahead), end - start);
        uint64_t spread = static_cast<uint64_t>(4 * variance * rsqrtf(variance));
        narrow_by_lanes(keys, start, end, guess, spread, pivot, lanes);
        uint64_t place = search_by_lanes(keys, start, end, guess, spread, pivot, lanes);
        if (mine && member % lanes == 0) {
            windows.place[source] = place;
            windows.past[source] = place + (place < windows.end[source] && keys[place] == pivot);
        }
    }
    wait_for_group<GROUP>();
}

/// Finds where a tile begins in every source: at a key such that at most `goal` entries are less, and at least
/// `goal - SLACK`. For a group of threads, which all call it with the same arguments. `cuts` may be `windows.past`.
template <int GROUP, class Key>
__device__ void cut(const Sources<Key, Nothing>& sources, uint64_t goal, Windows<Key>& windows, uint64_t* cuts) {
    int count = sources.count, member = threadIdx.x % GROUP;
    for (int number = member; number < count; number += GROUP) {
        Source<Key, Nothing> source = sources[number];
        windows.keys[number] = source.keys;
        windows.start[number] = 0;
        windows.end[number] = *source.len;
    }
    wait_for_group<GROUP>();
    uint64_t below = 0, above = sum_of(windows.end, count);  // entries before the windows, and before their ends
    goal = min(goal, above);
    const uint64_t* cut = goal == above ? windows.end : windows.start;
    for (uint32_t round = 0; goal < above && goal - below > SLACK; round++) {
        // Interpolates, as if keys were spread evenly: at first, if there are many sources, in the same way in all. After
        // a few rounds every other one bisects, which bounds the cost for skewed keys to twice that of bisection.
        float rest = goal - below - SLACK / 2, share = 0;
        if (round > 2 && round % 2 == 1) share = 0.5f;
        else if (round < 2 && count > FEW_SOURCES) share = __fdividef(rest, above - below);
        Key pivot = share > 0 ? choose_pivot<GROUP>(windows, count, share, above - below)
                              : interpolate_pivot<GROUP>(windows, count, rest);
        place_pivot<GROUP>(windows, count, share, pivot);
        uint64_t less = sum_of(windows.place, count), up_to = sum_of(windows.past, count);
        if (less <= goal && up_to > goal) {  // The goal lies among the entries of the pivot itself.
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
    wait_for_group<GROUP>();  // Other warps may still be adding up what `cuts` is.
    for (int source = member; source < count; source += GROUP) cuts[source] = cut[source];
}

}  // namespace gpulsm
