// Skips dead stretches: neighbouring keys of which none is live. Where neighbours were deleted, runs hold their
// entries and tombstones until they are merged. The sums of marks tell how many live keys lie between any two
// positions, so the next live key is found by a search, however many dead ones precede it.
#pragma once

#include <gpulsm/queries.cuh>

#include "merge/cut.cuh"

namespace gpulsm {

/// The position of a warp in every run. A few neighbouring lanes hold the position in one run, or in two if there
/// are more than 32 runs.
struct RunPositions {
    static constexpr int SLOTS = MAX_RUNS / 32;
    unsigned lanes;  // per run; a power of two
    uint64_t start[SLOTS], end[SLOTS];

    __device__ explicit RunPositions(uint64_t count) : lanes(1) {
        while (lanes < 8 && count * lanes * 2 <= 32) lanes *= 2;
#pragma unroll
        for (int slot = 0; slot < SLOTS; slot++) start[slot] = end[slot] = 0;
    }

    __device__ int run(int slot) const { return threadIdx.x % 32 / lanes + slot * 32; }

    /// Returns the first lane that holds a run.
    __device__ int lane_of(int run) const { return run % 32 * lanes; }

    /// Sets the window of a run. For whole warps, with the same arguments in every lane.
    __device__ void set(int of, uint64_t from, uint64_t to) {
#pragma unroll
        for (int slot = 0; slot < SLOTS; slot++) {
            if (run(slot) == of) start[slot] = from, end[slot] = to;
        }
    }

    /// Returns the position in a run, in every lane of the warp.
    __device__ uint64_t of(int wanted) const {
        uint64_t own = start[0];
#pragma unroll
        for (int slot = 1; slot < SLOTS; slot++) own = wanted / 32 == slot ? start[slot] : own;
        return __shfl_sync(~0u, own, lane_of(wanted));
    }
};

/// Returns the least key at these positions, or the largest possible key if there is none. For whole warps.
template <class Key, class Value>
__device__ Key next_key(const View<Key, Value>& view, const RunPositions& positions) {
    Key own = HIGHEST<Key>;
#pragma unroll
    for (int slot = 0; slot < RunPositions::SLOTS; slot++) {
        if (positions.start[slot] < positions.end[slot]) {
            Key next = read_key(view.runs[positions.run(slot)].keys + positions.start[slot]);
            own = next < own ? next : own;
        }
    }
    return min_lanes(own);
}

/// Finds the first live key from these positions on, which must exist, and advances them to it. For whole warps.
template <class Key, class Value>
__device__ Key next_live(const View<Key, Value>& view, RunPositions& positions) {
    constexpr int SLOTS = RunPositions::SLOTS;
    bool is_first = threadIdx.x % positions.lanes == 0;  // of the lanes of its run
    auto rank = [&](const uint64_t (&at)[SLOTS]) {
        int64_t own = 0;
#pragma unroll
        for (int slot = 0; slot < SLOTS; slot++) {
            int run = positions.run(slot);
            if (is_first && run < view.count) own += sum_before(view.runs[run].marks, at[slot]);
        }
        return sum_lanes(own, 32);
    };
    int64_t rank_here = rank(positions.start);
    // Strides grow until one passes the key; then the windows are bisected.
    uint64_t stride = DEAD_STRIDE;
    for (;;) {
        // Choose a pivot: the middle of the widest window, or a stride from its start.
        uint64_t own = 0;
#pragma unroll
        for (int slot = 0; slot < SLOTS; slot++) {
            uint64_t width = positions.end[slot] - positions.start[slot];
            own = max(own, width << 6 | static_cast<uint64_t>(positions.run(slot)));
        }
        uint64_t widest = ~min_lanes(~own), width = widest >> 6;
        if (width == 0) return HIGHEST<Key>;  // Not reached: the marks promise a live key.
        uint64_t ahead = min(width / 2, stride), from = positions.of(widest & 63);
        Key pivot = read_key(view.runs[widest & 63].keys + from + ahead);
        float share = __fdividef(static_cast<float>(ahead), static_cast<float>(width));
        uint64_t place[SLOTS], past[SLOTS];
#pragma unroll
        for (int slot = 0; slot < SLOTS; slot++) {
            uint64_t start = positions.start[slot], end = positions.end[slot];
            place[slot] = past[slot] = start;
            if (slot > 0 && view.count <= slot * 32) continue;
            int run = positions.run(slot) < view.count ? positions.run(slot) : 0;
            float expected = (end - start) * share;
            uint64_t spread = static_cast<uint64_t>(4 * sqrtf(expected)) + 8;
            uint64_t guess = start + static_cast<uint64_t>(expected);
            const Key* keys = view.runs[run].keys;
            place[slot] = search_by_lanes(keys, start, end, guess, spread, pivot, positions.lanes);
            past[slot] = place[slot] + (place[slot] < end && read_key(keys + place[slot]) == pivot);
        }
        if (rank(place) > rank_here) {
#pragma unroll
            for (int slot = 0; slot < SLOTS; slot++) positions.end[slot] = place[slot];
            stride = ~0ull;
            continue;
        }
        bool is_live = rank(past) > rank_here;
#pragma unroll
        for (int slot = 0; slot < SLOTS; slot++) positions.start[slot] = is_live ? place[slot] : past[slot];
        if (is_live) return pivot;
        stride = stride > ~0ull / 4 ? stride : stride * 4;
    }
}

/// Reads a key that another block may have written: not from the L1 cache, which may hold older contents.
template <class Key>
__device__ __forceinline__ Key read_new(const Key* key) {
    if constexpr (sizeof(Key) == 16) return of_halves(__ldcg(reinterpret_cast<const ulonglong2*>(key)));
    else return __ldcg(key);
}

/// Dead stretches found while a batch of ranges is answered, for other ranges that cross the same ones. In global
/// memory; only the part before `first` must be zeroed.
template <class Key>
struct DeadStretches {
    static constexpr int CAPACITY = 32;
    uint32_t count, padding;
    uint32_t is_ready[CAPACITY];
    Key first[CAPACITY], end[CAPACITY];  // `end` is live
    uint64_t positions[CAPACITY][MAX_RUNS];  // of `end`, in every run

    /// Advances the positions to the end of a known stretch that contains `key`; returns whether there is one. For
    /// whole warps.
    __device__ bool skip(uint64_t count, Key key, RunPositions& at) {
        int own = threadIdx.x % 32;
        bool is_known = *static_cast<volatile uint32_t*>(is_ready + own) != 0;
        __threadfence();  // Orders the loads below after that of the flag.
        unsigned having = __ballot_sync(~0u, is_known && read_new(first + own) <= key && key < read_new(end + own));
        if (having == 0) return false;
        const uint64_t* to = positions[__ffs(having) - 1];
#pragma unroll
        for (int slot = 0; slot < RunPositions::SLOTS; slot++) {
            if (at.run(slot) < count) at.start[slot] = __ldcg(to + at.run(slot));
        }
        return true;
    }

    /// Adds the stretch that ends at these positions, if there is room for one more. For whole warps.
    __device__ void add(uint64_t runs, Key from, Key to, const RunPositions& at) {
        unsigned number = threadIdx.x % 32 == 0 ? atomicAdd(&count, 1) : 0;
        number = __shfl_sync(~0u, number, 0);
        if (number >= CAPACITY) return;
#pragma unroll
        for (int slot = 0; slot < RunPositions::SLOTS; slot++) {
            if (at.run(slot) < runs && threadIdx.x % at.lanes == 0) positions[number][at.run(slot)] = at.start[slot];
        }
        first[number] = from;
        end[number] = to;
        __threadfence();
        __syncwarp();
        if (threadIdx.x % 32 == 0) *static_cast<volatile uint32_t*>(is_ready + number) = 1;
    }
};

}  // namespace gpulsm
