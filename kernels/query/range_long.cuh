// Merges long ranges over several runs in shared memory, by a block per range or piece.
#pragma once

#include "query/range_cuts.cuh"
#include "query/range_merge.cuh"

namespace gpulsm {

/// Writes the pairs of ranges to their places.
template <class Key, class Value>
struct PairWriter {
    const RangeOutput<Key, Value>& ranges;

    /// Writes the live pairs of a tile, and returns how many there are. For the whole block.
    template <int BLOCK, int PER_THREAD>
    __device__ __forceinline__ uint32_t take(RangeMerge<false, BLOCK, PER_THREAD, Key, Value>& merge,
                                             const ThreadEntries<PER_THREAD, Key>& mine) const {
        uint32_t before, kept;
        auto& tile = merge.tile;
        pack(tile, mine, before, kept);
        uint64_t to = merge.place + threadIdx.x;
        for (uint32_t i = threadIdx.x; i < kept; i += BLOCK, to += BLOCK) {
            ranges.keys[to] = tile.keys[i];
            if (sizeof(Value) == 1 || ranges.values == nullptr) continue;
            ranges.values[to] = tile.values[tile.entries[i].number()];
        }
        return kept;
    }
};

/// Merges long ranges, one block each, except those whose answers are divided.
template <int PER_THREAD, class Key, class Value>
__global__ void __launch_bounds__(RANGE_THREADS, range_blocks(sizeof(Key), sizeof(Value)))
merge_long_kernel(const __grid_constant__ View<Key, Value> view,
                  const __grid_constant__ RangeOutput<Key, Value> ranges, AnswerPieces pieces) {
    __shared__ RangeMerge<false, RANGE_THREADS, PER_THREAD, Key, Value> merge;
    PairWriter<Key, Value> writer{ranges};
    if (!ranges.has_room()) return;
    uint64_t pairs = __ldg(ranges.offsets + blockIdx.x + 1) - __ldg(ranges.offsets + blockIdx.x);
    if (pairs > pieces.size && threadIdx.x == 0) ranges.flags[HAS_PIECES] = 1;
    if (pairs == 0 || pairs > pieces.size) return;
    merge.begin(view, ranges, static_cast<uint64_t>(blockIdx.x));
    if (!merge.is_mostly_dead(static_cast<int>(view.count))) merge.merge_all(view, writer);
    else if (threadIdx.x == 0) ranges.flags[HAS_DEAD] = 1;
}

/// Merges pieces of divided answers that fit in a tile, one block each.
template <int PER_THREAD, class Key, class Value>
__global__ void __launch_bounds__(THREADS, piece_blocks(sizeof(Key) + sizeof(Value)))
merge_pieces_kernel(const __grid_constant__ View<Key, Value> view,
                    const __grid_constant__ RangeOutput<Key, Value> ranges, AnswerPieces pieces) {
    __shared__ RangeMerge<false, THREADS, PER_THREAD, Key, Value> merge;
    PairWriter<Key, Value> writer{ranges};
    if (!pieces.is_single && ranges.flags[HAS_PIECES] == 0) return;
    if (!merge.begin(view, ranges, blockIdx.x, pieces.count)) return;
    int count = static_cast<int>(view.count);
    if (merge.left(count) <= merge.capacity(count)) merge.template step<true>(view, writer);
    else if (threadIdx.x == 0) ranges.flags[HAS_OVERSIZED] = 1;
}

/// Merges pieces of more entries than `capacity`, if `flag` says that there may be any. Uses as many blocks as can
/// run at once, since there are rarely many.
template <int PER_THREAD, class Key, class Value>
__global__ void __launch_bounds__(RANGE_THREADS, range_blocks(sizeof(Key), sizeof(Value)) - 1)
merge_oversized_kernel(const __grid_constant__ View<Key, Value> view,
                       const __grid_constant__ RangeOutput<Key, Value> ranges, AnswerPieces pieces, uint32_t flag,
                       uint32_t capacity) {
    __shared__ RangeMerge<false, RANGE_THREADS, PER_THREAD, Key, Value> merge;
    PairWriter<Key, Value> writer{ranges};
    if (ranges.flags[flag] == 0) return;
    for (uint32_t number = blockIdx.x; number < pieces.count; number += gridDim.x) {
        if (!merge.begin(view, ranges, number, pieces.count)) continue;
        bool is_dead = merge.is_mostly_dead(static_cast<int>(view.count));
        if (is_dead && threadIdx.x == 0) ranges.flags[HAS_DEAD] = 1;
        if (!is_dead && merge.left(static_cast<int>(view.count)) > capacity) merge.merge_all(view, writer);
        __syncthreads();
    }
}

/// Merges ranges and pieces whose entries are mostly dead, which the other kernels skip.
template <int PER_THREAD, class Key, class Value>
__global__ void __launch_bounds__(RANGE_THREADS, DEAD_BLOCKS)
merge_dead_kernel(const __grid_constant__ View<Key, Value> view, const __grid_constant__ RangeOutput<Key, Value> ranges,
                  AnswerPieces pieces) {
    __shared__ RangeMerge<false, RANGE_THREADS, PER_THREAD, Key, Value> merge;
    PairWriter<Key, Value> writer{ranges};
    if (ranges.flags[HAS_DEAD] == 0) return;
    int count = static_cast<int>(view.count);
    auto merge_dead = [&](bool is_there) {
        if (is_there && merge.is_mostly_dead(count)) merge.merge_between_dead(view, writer, ranges.dead());
        __syncthreads();
    };
    bool has_pieces = pieces.is_single || ranges.flags[HAS_PIECES] != 0;
    for (uint32_t number = blockIdx.x; has_pieces && number < pieces.count; number += gridDim.x) {
        merge_dead(merge.begin(view, ranges, number, pieces.count));
    }
    for (uint64_t range = blockIdx.x; !pieces.is_single && range < ranges.len; range += gridDim.x) {
        uint64_t pairs = __ldg(ranges.offsets + range + 1) - __ldg(ranges.offsets + range);
        if (pairs > 0 && pairs <= pieces.size) merge_dead(merge.begin(view, ranges, range));
    }
}

/// Writes the pairs of long ranges over several runs.
template <class Key, class Value>
void merge_long(const View<Key, Value>& view, const RangeOutput<Key, Value>& ranges, cudaStream_t stream) {
    constexpr int WIDTH = sizeof(Key) + sizeof(Value), PER_THREAD = range_items(WIDTH);
    AnswerPieces pieces(WIDTH, ranges.total, ranges.room);
    if (!pieces.is_single) {
        merge_long_kernel<PER_THREAD><<<ranges.len, RANGE_THREADS, 0, stream>>>(view, ranges, pieces);
    }
    cut_pieces_kernel<<<blocks_at_once(pieces.count * 32ull, 4), THREADS, 0, stream>>>(view, ranges, pieces);
    // Where most answers are divided, each piece gets a block of its own. Otherwise there are few pieces.
    bool many = pieces.is_single || ranges.room / ranges.all >= pieces.size;
    if (many) merge_pieces_kernel<PER_THREAD><<<pieces.count, THREADS, 0, stream>>>(view, ranges, pieces);
    uint32_t flag = many ? HAS_OVERSIZED : HAS_PIECES;
    uint32_t capacity = many ? RangeMerge<false, THREADS, PER_THREAD, Key, Value>::capacity(static_cast<int>(view.count)) : 0;
    unsigned blocks = blocks_at_once(static_cast<uint64_t>(pieces.count) * THREADS, range_blocks(sizeof(Key), sizeof(Value)));
    merge_oversized_kernel<PER_THREAD><<<blocks, RANGE_THREADS, 0, stream>>>(view, ranges, pieces, flag, capacity);
    blocks = blocks_at_once((ranges.len + pieces.count) * THREADS, DEAD_BLOCKS);
    merge_dead_kernel<PER_THREAD><<<blocks, RANGE_THREADS, 0, stream>>>(view, ranges, pieces);
}

}  // namespace gpulsm
