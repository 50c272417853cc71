// A running sum over tiles that are worked on at the same time: each tile adds up what the tiles
// before it have published, until it meets one that knows its own sum ("decoupled look-back").
#pragma once

#include "../include/gpulsm/view.cuh"

namespace gpulsm {

/// What entries add up to: how many there are, their marks, and the last key of all.
struct Totals {
    uint64_t kept;
    int64_t sum;
    uint64_t tombstones;
    uint64_t last;  // if any is kept
};

__device__ __forceinline__ Totals operator+(const Totals& before, const Totals& after) {
    return {before.kept + after.kept, before.sum + after.sum, before.tombstones + after.tombstones,
            after.kept == 0 ? before.last : after.last};
}

class Chain {
public:
    /// Over `bytes_for(tiles)` bytes of zeros.
    Chain(void* zeros, uint64_t tiles)
        : tiles_(tiles), slots_(static_cast<ulonglong2*>(zeros)) {}

    static uint64_t bytes_for(uint64_t tiles) { return tiles * 2 * sizeof(ulonglong2); }

    /// The tile of this block. Blocks start in the order of their numbers (CUB relies on that too), so
    /// that no tile is waited for in vain.
    static __device__ unsigned tile() { return blockIdx.x; }

    __device__ bool is_last() const { return tile() == tiles_ - 1; }

    /// Publishes what this tile adds up to and returns what all tiles before it do. Called by one
    /// whole warp; the answer is the same in every lane.
    __device__ Totals look_back(const Totals& mine) {
        unsigned lane = threadIdx.x % 32;
        if (lane == 0) publish(tile(), mine, OWN);
        Totals before = {0, 0, 0, 0};
        // Each lane looks at a tile, the first lane at the nearest.
        for (int64_t nearest = static_cast<int64_t>(tile()) - 1; nearest >= 0; nearest -= 32) {
            Totals part = {0, 0, 0, 0};
            int64_t other = nearest - lane;
            unsigned ends = __ballot_sync(~0u, other >= 0 && wait_for(other, part) == UP_TO);
            if (ends != 0 && lane > __ffs(ends) - 1) part = {0, 0, 0, 0};
            before = sum_of_warp(part) + before;
            if (ends != 0) break;
        }
        if (lane == 0) publish(tile(), before + mine, UP_TO);
        return before;
    }

private:
    /// What a slot holds: nothing yet, what its tile adds up to, or what all up to it do.
    enum : unsigned { NONE, OWN, UP_TO };

    /// Each word of a slot carries its state, so that words of two states are never taken together.
    static __device__ uint64_t word(unsigned state, uint64_t value) {
        return static_cast<uint64_t>(state) << 62 | (value & ~0ull >> 2);
    }

    __device__ void publish(uint64_t tile, const Totals& totals, unsigned state) {
        uint64_t tombstones = totals.tombstones;
        uint64_t words[4] = {word(state, totals.kept), word(state, static_cast<uint64_t>(totals.sum)),
                             word(state, tombstones >> 30 << 32 | totals.last >> 32),
                             word(state, (tombstones & (1u << 30) - 1) << 32 | (totals.last & ~0u))};
        for (int i = 0; i < 2; i++) {
            asm volatile("st.relaxed.gpu.global.v2.u64 [%0], {%1, %2};" ::"l"(slots_ + 2 * tile + i),
                         "l"(words[2 * i]), "l"(words[2 * i + 1])
                         : "memory");
        }
    }

    /// Waits until a tile has published something, and says what.
    __device__ unsigned wait_for(uint64_t tile, Totals& totals) const {
        uint64_t words[4];
        unsigned state;
        do {
            for (int i = 0; i < 2; i++) {
                asm volatile("ld.relaxed.gpu.global.v2.u64 {%0, %1}, [%2];"
                             : "=l"(words[2 * i]), "=l"(words[2 * i + 1])
                             : "l"(slots_ + 2 * tile + i)
                             : "memory");
            }
            state = static_cast<unsigned>(words[0] >> 62);
        } while (state == NONE || words[1] >> 62 != state || words[2] >> 62 != state || words[3] >> 62 != state);
        totals.kept = words[0] & ~0ull >> 2;
        totals.sum = static_cast<int64_t>(words[1] << 2) >> 2;
        totals.tombstones = (words[2] & ~0ull >> 2) >> 32 << 30 | (words[3] & ~0ull >> 2) >> 32;
        totals.last = words[2] << 32 | (words[3] & ~0u);
        return state;
    }

    /// The parts of all lanes together; those of lower lanes come after those of higher ones.
    static __device__ Totals sum_of_warp(Totals part) {
        unsigned some = __ballot_sync(~0u, part.kept > 0);
        uint64_t last = __shfl_sync(~0u, part.last, some == 0 ? 0 : __ffs(some) - 1);
        for (int step = 16; step > 0; step /= 2) {
            part.kept += __shfl_xor_sync(~0u, part.kept, step);
            part.sum += __shfl_xor_sync(~0u, part.sum, step);
            part.tombstones += __shfl_xor_sync(~0u, part.tombstones, step);
        }
        return {part.kept, part.sum, part.tombstones, last};
    }

    uint64_t tiles_;
    ulonglong2* slots_;
};

}  // namespace gpulsm
