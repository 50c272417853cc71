// Prepares a merge: cuts its tiles and finds the shadows of the batch. The two are independent, so different blocks
// of one kernel do them at the same time.
#pragma once

#include "dispatch.cuh"
#include "merge/cut.cuh"
#include "update/shadows.cuh"

namespace gpulsm {

/// Memory to be zeroed before a merge, in units of 16 bytes.
struct Zeros {
    uint4* first;
    uint64_t len;

    Zeros(void* first, uint64_t bytes) : first(static_cast<uint4*>(first)), len(bytes / sizeof(uint4)) {}
};

/// The tiles to cut: tile i begins after about `i * step` entries.
struct TileCuts {
    uint64_t step;
    uint64_t first, count;  // `count` tiles from `first`, and the end of the last one
    uint64_t* cuts;         // one for every source, tile after tile
    // The marks and the filter, whose bits the merge sets one by one, and its chain.
    Zeros zeros[3];

    /// Returns how many threads search for one cut together: a block if there are few cuts, else a warp.
    int group() const { return count < FEW_CUTS ? THREADS : 32; }

    unsigned blocks() const { return blocks_for(count + 1, THREADS / group()); }
};

/// The parts of a batch, inserts and deletes, or the whole batch as the first part.
template <class Key>
struct BatchParts {
    ShadowQueries<Key> at[2];
    unsigned blocks[2];
};

/// Cuts tiles with the first `cut_blocks` blocks, and finds shadows with the others.
template <int LANES, int GROUP, class Key>
__global__ void __launch_bounds__(THREADS, 4)
prepare_kernel(const __grid_constant__ Sources<Key, Nothing> sources, TileCuts tiles, unsigned cut_blocks,
               const __grid_constant__ BatchParts<Key> parts, const __grid_constant__ View<Key, Nothing> older,
               const __grid_constant__ Filters filters) {
    if (blockIdx.x >= cut_blocks) {
        unsigned block = blockIdx.x - cut_blocks, part = block >= parts.blocks[0];
        find_shadows<LANES>(parts.at[part], older, filters, part == 0 ? block : block - parts.blocks[0]);
        return;
    }
    // Zero what the merge needs zeroed, then cut.
    uint64_t first = blockIdx.x * static_cast<uint64_t>(THREADS) + threadIdx.x, all = cut_blocks * THREADS;
    for (const Zeros& zeros : tiles.zeros) {
        for (uint64_t i = first; i < zeros.len; i += all) zeros.first[i] = make_uint4(0, 0, 0, 0);
    }
    __shared__ Windows<Key> windows[THREADS / GROUP];
    uint64_t tile = tiles.first + first / GROUP;
    if (tile > tiles.first + tiles.count) return;
    cut<GROUP>(sources, tile * tiles.step, windows[threadIdx.x / GROUP], tiles.cuts + tile * sources.count);
}

/// Prepares a merge. `queries` with a bound of 0 are skipped.
template <class Key>
int prepare(const Sources<Key, Nothing>& sources, const TileCuts& tiles, const ShadowQueries<Key> queries[2],
            const View<Key, Nothing>& older, const Filters& filters, cudaStream_t stream) {
    return with_lanes(queries[0].bound + queries[1].bound, older.count, [&](auto lanes) -> int {
        BatchParts<Key> parts = {{queries[0], queries[1]}, {}};
        for (int part = 0; part < 2; part++) parts.blocks[part] = blocks_for(queries[part].bound * lanes, THREADS);
        unsigned blocks = tiles.blocks() + parts.blocks[0] + parts.blocks[1];
        auto kernel = tiles.group() == 32 ? prepare_kernel<lanes, 32, Key> : prepare_kernel<lanes, THREADS, Key>;
        kernel<<<blocks, THREADS, 0, stream>>>(sources, tiles, tiles.blocks(), parts, older, filters);
        return cudaGetLastError();
    }, SHADOW_THREADS);
}

}  // namespace gpulsm
