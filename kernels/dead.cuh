// Stretches of keys of which none is live: where neighbours were deleted, runs hold their entries and their
// tombstones until they are merged. The sums of marks tell how many live keys lie between any two places, so the
// next live key is found by searching, however many dead ones lie before it.
#pragma once

#include "../include/gpulsm/queries.cuh"
#include "cut.cuh"

namespace gpulsm {

/// Where a warp is in every run: a few neighbouring lanes have the place of one, or of two if there are more than
/// 32 runs.
struct RunPlaces {
    static constexpr int SLOTS = MAX_RUNS / 32;
    unsigned lanes;  // that have the same run; a power of two
    uint64_t start[SLOTS], end[SLOTS];

    __device__ explicit RunPlaces(uint64_t count) : lanes(1) {
        while (lanes < 8 && count * lanes * 2 <= 32) lanes *= 2;
#pragma unroll
        for (int slot = 0; slot < SLOTS; slot++) start[slot] = end[slot] = 0;
    }

    __device__ int run(int slot) const { return threadIdx.x % 32 / lanes + slot * 32; }

    /// The lane that has a run, for itself and for its neighbours.
    __device__ int lane_of(int run) const { return run % 32 * lanes; }

    /// Takes the window of a run that some lane knows. For the whole warp.
    __device__ void set(int of, uint64_t from, uint64_t to) {
#pragma unroll
        for (int slot = 0; slot < SLOTS; slot++) {
            if (run(slot) == of) start[slot] = from, end[slot] = to;
        }
    }

    /// Where the run's place is, for every lane of the warp.
    __device__ uint64_t place(int of) const {
        uint64_t own = start[0];
#pragma unroll
        for (int slot = 1; slot < SLOTS; slot++) own = of / 32 == slot ? start[slot] : own;
        return __shfl_sync(~0u, own, lane_of(of));
    }
};

/// The least of what each lane brings. For whole warps.
template <class Number>
__device__ __forceinline__ Number least_of_lanes(Number own) {
    for (int step = 16; step > 0; step /= 2) own = min(own, __shfl_xor_sync(~0u, own, step));
    return own;
}

/// The least key at these places, or the largest key there is. For whole warps.
template <class Key, class Value>
__device__ Key next_key(const View<Key, Value>& view, const RunPlaces& places) {
    Key own = HIGHEST<Key>;
#pragma unroll
    for (int slot = 0; slot < RunPlaces::SLOTS; slot++) {
        if (places.start[slot] < places.end[slot]) {
            own = min(own, __ldg(view.runs[places.run(slot)].keys + places.start[slot]));
        }
    }
    return least_of_lanes(own);
}

/// Finds the first live key from these places on, which there must be, and moves the places there. For whole
/// warps.
template <class Key, class Value>
__device__ Key next_live(const View<Key, Value>& view, RunPlaces& places) {
    constexpr int SLOTS = RunPlaces::SLOTS;
    bool is_first = threadIdx.x % places.lanes == 0;  // of the lanes of its run
    auto rank = [&](const uint64_t (&at)[SLOTS]) {
        int64_t own = 0;
#pragma unroll
        for (int slot = 0; slot < SLOTS; slot++) {
            int run = places.run(slot);
            if (is_first && run < view.count) own += sum_before(view.runs[run].marks, at[slot]);
        }
        return add_up_lanes(own, 32);
    };
    int64_t here = rank(places.start);
    // Strides that grow until they go past it; then what is left is halved.
    uint64_t stride = DEAD_STRIDE;
    for (;;) {
        // The middle of the widest window, or a stride from its start.
        uint64_t own = 0;
#pragma unroll
        for (int slot = 0; slot < SLOTS; slot++) {
            own = max(own, (places.end[slot] - places.start[slot]) << 6 | static_cast<uint64_t>(places.run(slot)));
        }
        uint64_t widest = ~least_of_lanes(~own), width = widest >> 6;
        if (width == 0) return HIGHEST<Key>;  // The marks promised a live key.
        uint64_t ahead = min(width / 2, stride), from = places.place(widest & 63);
        Key pivot = __ldg(view.runs[widest & 63].keys + from + ahead);
        float share = __fdividef(static_cast<float>(ahead), static_cast<float>(width));
        uint64_t place[SLOTS], past[SLOTS];
#pragma unroll
        for (int slot = 0; slot < SLOTS; slot++) {
            uint64_t start = places.start[slot], end = places.end[slot];
            place[slot] = past[slot] = start;
            if (slot > 0 && view.count <= slot * 32) continue;
            int run = places.run(slot) < view.count ? places.run(slot) : 0;
            float expected = (end - start) * share;
            uint64_t spread = static_cast<uint64_t>(4 * sqrtf(expected)) + 8;
            uint64_t guess = start + static_cast<uint64_t>(expected);
            const Key* keys = view.runs[run].keys;
            place[slot] = search_by_lanes(keys, start, end, guess, spread, pivot, places.lanes);
            past[slot] = place[slot] + (place[slot] < end && __ldg(keys + place[slot]) == pivot);
        }
        if (rank(place) > here) {
#pragma unroll
            for (int slot = 0; slot < SLOTS; slot++) places.end[slot] = place[slot];
            stride = ~0ull;
            continue;
        }
        bool is_live = rank(past) > here;
#pragma unroll
        for (int slot = 0; slot < SLOTS; slot++) places.start[slot] = is_live ? place[slot] : past[slot];
        if (is_live) return pivot;
        stride = stride > ~0ull / 4 ? stride : stride * 4;
    }
}

/// Stretches that were found while a batch of ranges is answered: others may cross the same ones. In global
/// memory; all but the beginning up to `first` need not be initialised.
template <class Key>
struct DeadStretches {
    static constexpr int MOST = 32;
    uint32_t count, padding;
    uint32_t is_ready[MOST];
    Key first[MOST], end[MOST];  // `end` is live
    uint64_t places[MOST][MAX_RUNS];  // of `end`

    /// Moves the places to the end of a known stretch that has this key; says whether there is one. For whole warps.
    __device__ bool skip(uint64_t count, Key key, RunPlaces& at) {
        int own = threadIdx.x % 32;
        bool is_known = *static_cast<volatile uint32_t*>(is_ready + own) != 0;
        __threadfence();  // What is ready was written before.
        // Past the nearest cache, which may have what lay there before.
        unsigned having = __ballot_sync(~0u, is_known && __ldcg(first + own) <= key && key < __ldcg(end + own));
        if (having == 0) return false;
        const uint64_t* to = places[__ffs(having) - 1];
#pragma unroll
        for (int slot = 0; slot < RunPlaces::SLOTS; slot++) {
            if (at.run(slot) < count) at.start[slot] = __ldcg(to + at.run(slot));
        }
        return true;
    }

    /// Adds the stretch that ends at these places, if there is room for one more. For whole warps.
    __device__ void add(uint64_t runs, Key from, Key to, const RunPlaces& at) {
        unsigned number = threadIdx.x % 32 == 0 ? atomicAdd(&count, 1) : 0;
        number = __shfl_sync(~0u, number, 0);
        if (number >= MOST) return;
#pragma unroll
        for (int slot = 0; slot < RunPlaces::SLOTS; slot++) {
            if (at.run(slot) < runs && threadIdx.x % at.lanes == 0) places[number][at.run(slot)] = at.start[slot];
        }
        first[number] = from;
        end[number] = to;
        __threadfence();
        __syncwarp();
        if (threadIdx.x % 32 == 0) *static_cast<volatile uint32_t*>(is_ready + number) = 1;
    }
};

}  // namespace gpulsm
