// Combines the values of equal neighbours in a sorted batch: a segmented sum, within a block and across tiles.
#pragma once

#include <cstring>

#include <gpulsm/queries.cuh>

namespace gpulsm {

/// What consecutive entries of a sorted batch come to.
template <class Value>
struct Segment {
    uint32_t ends;  // how many entries are the last ones of their keys
    bool has_rest;  // whether entries follow the last of those, all of one key
    Value rest;     // their combined values

    /// Returns what these entries and those after them come to.
    __device__ __forceinline__ Segment then(const Segment& after, const Combiner& combiner) const {
        Segment both = after;
        both.ends += ends;
        if (after.ends == 0 && has_rest) {
            both.rest = after.has_rest ? combiner.combine(rest, after.rest) : rest;
            both.has_rest = true;
        }
        return both;
    }

    /// Adds one entry; returns the combined value of its key so far.
    __device__ __forceinline__ Value add(const Value& value, bool is_end, const Combiner& combiner) {
        rest = has_rest ? combiner.combine(rest, value) : value;
        has_rest = !is_end;
        ends += is_end;
        return rest;
    }
};

/// Returns a plain value of another lane, `distance` before this one or, with `DOWN`, after it. For whole warps.
template <bool DOWN, class T>
__device__ __forceinline__ T shuffled(const T& own, unsigned distance) {
    static_assert(sizeof(T) % sizeof(uint32_t) == 0);
    constexpr int WORDS = sizeof(T) / sizeof(uint32_t);
    uint32_t words[WORDS];
    memcpy(words, &own, sizeof(T));
#pragma unroll
    for (uint32_t& word : words) {
        word = DOWN ? __shfl_down_sync(~0u, word, distance) : __shfl_up_sync(~0u, word, distance);
    }
    T other;
    memcpy(&other, words, sizeof(T));
    return other;
}

template <bool DOWN, class Value>
__device__ __forceinline__ Segment<Value> shuffled(const Segment<Value>& own, unsigned distance) {
    uint32_t flags = shuffled<DOWN>(own.ends << 1 | own.has_rest, distance);
    return {flags >> 1, (flags & 1) != 0, shuffled<DOWN>(own.rest, distance)};
}

/// Returns what the entries of all threads before this one come to, and those of the whole block. For the whole block;
/// `of_warps` is shared memory.
template <int BLOCK, class Value>
__device__ Segment<Value> scan_segments(const Segment<Value>& own, const Combiner& combiner,
                                        Segment<Value> (&of_warps)[BLOCK / 32], Segment<Value>& all) {
    unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    Segment<Value> up_to = own;
#pragma unroll 1
    for (unsigned step = 1; step < 32; step *= 2) {
        Segment<Value> other = shuffled<false>(up_to, step);
        if (lane >= step) up_to = other.then(up_to, combiner);
    }
    if (lane == 31) of_warps[warp] = up_to;
    Segment<Value> before = shuffled<false>(up_to, 1), ahead = {};
    if (lane == 0) before = {};
    __syncthreads();
    all = {};
#pragma unroll 1
    for (unsigned i = 0; i < BLOCK / 32; i++) {
        if (i == warp) ahead = all;
        all = all.then(of_warps[i], combiner);
    }
    return ahead.then(before, combiner);
}

/// Carries the values of keys that begin in earlier tiles, by decoupled look-back, like `Chain`.
template <class Value>
class RestChain {
public:
    /// Uses `bytes_for(tiles)` bytes, of which the first `zeroed_bytes_for(tiles)` are zero.
    RestChain(void* memory, uint64_t tiles)
        : states_(static_cast<unsigned*>(memory)),
          rests_(reinterpret_cast<Value*>(static_cast<char*>(memory) + zeroed_bytes_for(tiles))) {}

    static uint64_t zeroed_bytes_for(uint64_t tiles) { return (tiles * sizeof(unsigned) + 15) / 16 * 16; }
    static uint64_t bytes_for(uint64_t tiles) { return zeroed_bytes_for(tiles) + tiles * 2 * sizeof(Value); }

    /// Publishes what this tile comes to, and returns what the tiles before it have of its first key, if that
    /// `continues` from them. For one whole warp; the first lane gets the result.
    __device__ Segment<Value> look_back(uint64_t tile, const Segment<Value>& all, bool continues,
                                        const Combiner& combiner) {
        unsigned lane = threadIdx.x % 32;
        bool is_complete = all.ends > 0 || !continues;  // Its rest begins in this tile.
        if (lane == 0) publish(tile, all.rest, is_complete ? COMPLETE : OWN);
        Segment<Value> carried = {};
        if (!continues) return carried;
        // Each lane reads one tile, the first lane the nearest. The first tile's rest is always complete.
        unsigned complete = 0;
#pragma unroll 1
        for (int64_t nearest = static_cast<int64_t>(tile) - 1; complete == 0; nearest -= 32) {
            int64_t other = nearest - lane;
            unsigned state = other >= 0 ? wait_for(other) : NONE;
            complete = __ballot_sync(~0u, state == COMPLETE);
            int last = complete == 0 ? 31 : __ffs(complete) - 1;
            Segment<Value> part = {};
            if (state != NONE && lane <= last) part = {0, true, __ldcg(rests_ + 2 * other + (state == COMPLETE))};
#pragma unroll 1
            for (unsigned step = 1; step < 32; step *= 2) {
                Segment<Value> older = shuffled<true>(part, step);
                if (lane + step < 32) part = older.then(part, combiner);
            }
            carried = part.then(carried, combiner);
        }
        if (lane == 0 && !is_complete) publish(tile, carried.then(all, combiner).rest, COMPLETE);
        return carried;
    }

private:
    /// What is known of a tile's rest: nothing yet, the values within the tile, or all of them.
    enum : unsigned { NONE, OWN, COMPLETE };

    __device__ void publish(uint64_t tile, const Value& rest, unsigned state) {
        rests_[2 * tile + (state == COMPLETE)] = rest;
        __threadfence();
        *static_cast<volatile unsigned*>(states_ + tile) = state;
    }

    /// Waits until a tile has published its rest, and returns its state.
    __device__ unsigned wait_for(uint64_t tile) const {
        unsigned state;
        do state = *static_cast<const volatile unsigned*>(states_ + tile);
        while (state == NONE);
        __threadfence();  // Orders the load of the rest after that of the state.
        return state;
    }

    unsigned* states_;
    Value* rests_;
};

}  // namespace gpulsm
