// A running sum over tiles that are worked on at the same time: each tile adds up what the tiles
// before it have published, until it meets one that knows its own sum ("decoupled look-back").
#pragma once

#include <cuda/atomic>

#include "../include/gpulsm/view.cuh"

namespace gpulsm {

/// What entries add up to: how many there are, and their marks.
struct Totals {
    uint64_t kept;
    int64_t sum;
    uint64_t tombstones;
};

class Chain {
public:
    /// Over memory of `bytes_for(tiles)` bytes, whose first `zeroed_for(tiles)` bytes are zero.
    Chain(void* memory, uint64_t tiles)
        : own_(static_cast<Totals*>(memory_at(memory, zeroed_for(tiles)))),
          up_to_(own_ + tiles),
          ticket_(static_cast<unsigned*>(memory)),
          state_(ticket_ + 1) {}

    static uint64_t zeroed_for(uint64_t tiles) { return ((tiles + 1) * sizeof(unsigned) + 31) / 32 * 32; }
    static uint64_t bytes_for(uint64_t tiles) { return zeroed_for(tiles) + 2 * tiles * sizeof(Totals); }

    /// The tile of this block, the same for all its threads. A tile starts only after all before it
    /// have, so that none is waited for in vain. `shared` is a word of shared memory.
    __device__ uint64_t take_tile(unsigned& shared) {
        if (threadIdx.x == 0) shared = atomicAdd(ticket_, 1u);
        __syncthreads();
        return shared;
    }

    /// Publishes what this tile adds up to and returns what all tiles before it do. Called by one
    /// whole warp; the answer is the same in every lane.
    __device__ Totals look_back(uint64_t tile, Totals mine) {
        unsigned lane = threadIdx.x % 32;
        if (lane == 0) publish(tile, own_, mine, OWN);
        Totals before = {0, 0, 0};
        for (int64_t nearest = static_cast<int64_t>(tile) - 1; nearest >= 0; nearest -= 32) {
            int64_t other = nearest - lane;
            unsigned state = other < 0 ? OWN : NONE;
            while (state == NONE) state = load(other);
            unsigned complete = __ballot_sync(~0u, state == UP_TO);
            unsigned last = complete == 0 ? 31 : __ffs(complete) - 1;
            Totals part = {0, 0, 0};
            if (other >= 0 && lane <= last) part = state == UP_TO ? up_to_[other] : own_[other];
            before = add(before, sum_of_warp(part));
            if (complete != 0) break;
        }
        if (lane == 0) publish(tile, up_to_, add(before, mine), UP_TO);
        return before;
    }

    /// What the first `tiles` tiles add up to, once a kernel is through with them.
    __device__ Totals all(uint64_t tiles) const { return up_to_[tiles - 1]; }

private:
    enum : unsigned { NONE, OWN, UP_TO };

    using State = cuda::atomic_ref<unsigned, cuda::thread_scope_device>;

    static void* memory_at(void* memory, uint64_t offset) { return static_cast<char*>(memory) + offset; }

    __device__ unsigned load(uint64_t tile) const { return State(state_[tile]).load(cuda::memory_order_acquire); }

    __device__ void publish(uint64_t tile, Totals* where, Totals totals, unsigned state) {
        where[tile] = totals;
        State(state_[tile]).store(state, cuda::memory_order_release);
    }

    static __device__ Totals add(Totals a, Totals b) {
        return {a.kept + b.kept, a.sum + b.sum, a.tombstones + b.tombstones};
    }

    static __device__ Totals sum_of_warp(Totals part) {
        for (int step = 16; step > 0; step /= 2) {
            part.kept += __shfl_xor_sync(~0u, part.kept, step);
            part.sum += __shfl_xor_sync(~0u, part.sum, step);
            part.tombstones += __shfl_xor_sync(~0u, part.tombstones, step);
        }
        return part;
    }

    Totals* own_;
    Totals* up_to_;
    unsigned* ticket_;
    unsigned* state_;
};

}  // namespace gpulsm
