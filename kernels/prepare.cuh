// What a merge must know before: where its tiles begin, and which keys of the batch are shadows. One
// has nothing to do with the other: some blocks do this, others that, at the same time.
#pragma once

#include "cut.cuh"
#include "dispatch.cuh"
#include "shadows.cuh"

namespace gpulsm {

/// What must be zero before a merge, in whole 16 bytes.
struct Zeros {
    uint4* first;
    uint64_t len;

    Zeros(void* first, uint64_t bytes) : first(static_cast<uint4*>(first)), len(bytes / sizeof(uint4)) {}
};

/// What to cut: tile number i begins where about `i * step` entries come before.
struct Tiles {
    uint64_t step;
    uint64_t first, count;  // from this one on so many, and where the last one ends
    uint64_t* cuts;         // for every source, of one tile after the other
    // The marks and the filter, which the merge sets bit by bit, and its chain: here is someone with time.
    Zeros zeros[3];

    /// How many threads search for a cut, all over the same: a block's, if there are few cuts.
    int group() const { return count < FEW_CUTS ? THREADS : 32; }

    unsigned blocks() const { return blocks_for(count + 1, THREADS / group()); }
};

/// The halves of a batch, or all of it.
template <class Key>
struct Halves {
    Shadows<Key> at[2];
    unsigned blocks[2];
};

template <int LANES, int GROUP, class Key>
__global__ void __launch_bounds__(THREADS, 4)
prepare_kernel(const __grid_constant__ Sources<Key, Nothing> sources, Tiles tiles, unsigned cutting,
               const __grid_constant__ Halves<Key> halves, const __grid_constant__ View<Key, Nothing> older,
               const __grid_constant__ Filters filters) {
    if (blockIdx.x >= cutting) {
        unsigned block = blockIdx.x - cutting, half = block >= halves.blocks[0];
        find_shadows<LANES>(halves.at[half], older, filters, half == 0 ? block : block - halves.blocks[0]);
        return;
    }
    uint64_t first = blockIdx.x * static_cast<uint64_t>(THREADS) + threadIdx.x, all = cutting * THREADS;
    for (const Zeros& zeros : tiles.zeros) {
        for (uint64_t i = first; i < zeros.len; i += all) zeros.first[i] = make_uint4(0, 0, 0, 0);
    }
    __shared__ Windows<Key> windows[THREADS / GROUP];
    uint64_t tile = tiles.first + first / GROUP;
    if (tile > tiles.first + tiles.count) return;
    cut<GROUP>(sources, tile * tiles.step, windows[threadIdx.x / GROUP], tiles.cuts + tile * sources.count);
}

/// Prepares a merge; of the batch's keys it is asked which are shadows, where there are any to ask.
template <class Key>
int prepare(const Sources<Key, Nothing>& sources, const Tiles& tiles, const Shadows<Key> asked[2],
            const View<Key, Nothing>& older, const Filters& filters, cudaStream_t stream) {
    return with_lanes(asked[0].bound + asked[1].bound, older.count, [&](auto lanes) -> int {
        Halves<Key> halves = {{asked[0], asked[1]}, {}};
        for (int half = 0; half < 2; half++) halves.blocks[half] = blocks_for(asked[half].bound * lanes, THREADS);
        unsigned blocks = tiles.blocks() + halves.blocks[0] + halves.blocks[1];
        auto kernel = tiles.group() == 32 ? prepare_kernel<lanes, 32, Key> : prepare_kernel<lanes, THREADS, Key>;
        kernel<<<blocks, THREADS, 0, stream>>>(sources, tiles, tiles.blocks(), halves, older, filters);
        return cudaGetLastError();
    }, SHADOW_THREADS);
}

}  // namespace gpulsm
