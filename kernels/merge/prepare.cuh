// Prepares a merge: cuts its tiles and finds the shadows of the batch. The two are independent, so different blocks
// of one kernel do them at the same time.
#pragma once

#include "dispatch.cuh"
#include "merge/cut.cuh"
#include "run/zeros.cuh"
#include "update/shadows.cuh"

namespace gpulsm {

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

/// The parts of a batch, or the whole batch as the first part.
template <class Key>
struct BatchParts {
    ShadowQueries<Key> at[MAX_PARTS];
    unsigned blocks[MAX_PARTS];
};

/// Cuts tiles with the first `cut_blocks` blocks, and finds shadows with the others.
template <int LANES, int GROUP, class Key>
__global__ void __launch_bounds__(THREADS, 4)
prepare_kernel(const __grid_constant__ Sources<Key, Nothing> sources, TileCuts tiles, unsigned cut_blocks,
               const __grid_constant__ BatchParts<Key> parts, const __grid_constant__ View<Key, Nothing> older,
               const __grid_constant__ Filters filters) {
    wait_for_predecessor();
    if (blockIdx.x >= cut_blocks) {
        unsigned block = blockIdx.x - cut_blocks, part = 0;
        for (; block >= parts.blocks[part]; part++) block -= parts.blocks[part];
        find_shadows<LANES>(parts.at[part], older, filters, block);
        return;
    }
    // Zero what the merge needs zeroed, then cut.
    uint64_t first = blockIdx.x * static_cast<uint64_t>(THREADS) + threadIdx.x, all = cut_blocks * THREADS;
    for (const Zeros& zeros : tiles.zeros) {
        zeros.write(first, all);
    }
    __shared__ Windows<Key> windows[THREADS / GROUP];
    uint64_t tile = tiles.first + first / GROUP;
    if (tile > tiles.first + tiles.count) return;
    cut<GROUP>(sources, tile * tiles.step, windows[threadIdx.x / GROUP], tiles.cuts + tile * sources.count);
}

/// Prepares a merge. `queries` with a bound of 0 are skipped.
template <class Key>
int prepare(const Sources<Key, Nothing>& sources, const TileCuts& tiles, const ShadowQueries<Key> queries[MAX_PARTS],
            const View<Key, Nothing>& older, const Filters& filters, cudaStream_t stream) {
    uint64_t keys = 0;
    for (int part = 0; part < MAX_PARTS; part++) keys += queries[part].bound;
    return with_lanes<Key>(keys, older.count, [&](auto lanes) -> int {
        BatchParts<Key> parts;
        unsigned blocks = tiles.blocks();
        for (int part = 0; part < MAX_PARTS; part++) {
            parts.at[part] = queries[part];
            parts.blocks[part] = blocks_for(queries[part].bound * lanes, THREADS);
            blocks += parts.blocks[part];
        }
        auto kernel = tiles.group() == 32 ? prepare_kernel<lanes, 32, Key> : prepare_kernel<lanes, THREADS, Key>;
        return launch_early(kernel, blocks, THREADS, 0, stream, sources, tiles, tiles.blocks(), parts, older, filters);
    }, SHADOW_THREADS);
}

}  // namespace gpulsm
