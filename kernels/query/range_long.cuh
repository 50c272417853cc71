// Merges long ranges over several runs in shared memory, by a block per range or piece.
#pragma once

#include "merge/rounds.cuh"
#include "query/range_cuts.cuh"

namespace gpulsm {

/// Returns how many of `len` sorted keys in shared memory are not greater than `key`.
template <class Key>
__device__ __forceinline__ uint32_t up_to(const Key* keys, uint32_t len, Key key) {
    uint32_t start = 0;
    while (len > 0) {
        uint32_t half = (len + 1) / 2;
        start = keys[start + half - 1] <= key ? start + half : start;
        len -= half;
    }
    return start;
}

__device__ __forceinline__ void lower_to(uint32_t& bound, uint32_t key) { atomicMin(&bound, key); }

__device__ __forceinline__ void lower_to(uint64_t& bound, uint64_t key) {
    atomicMin(reinterpret_cast<unsigned long long*>(&bound), static_cast<unsigned long long>(key));
}

/// The merge of a range, or of a piece of one, by a block: a window of every run, tile by tile.
template <int BLOCK, int PER_THREAD, class Key, class Value>
struct RangeMerge {
    MergeTile<false, BLOCK, PER_THREAD, Key, Value> tile;
    uint64_t start[MAX_RUNS], end[MAX_RUNS];
    uint64_t place, last;  // output position of the next pair, and the end of the answer
    Key bound;             // the largest key of the current tile
    Key dead_from;         // The dead stretch begins here, or earlier.
    bool skips;

    /// Begins a piece of a divided answer; returns whether the number is in use. For the whole block.
    __device__ bool begin(const View<Key, Value>& view, const RangeOutput<Key, Value>& ranges, uint32_t number,
                          uint32_t pieces) {
        int count = static_cast<int>(view.count), own = threadIdx.x;
        const uint64_t *row = ranges.piece_row(number, view.count), *next = row + count + 2;
        // Issue all loads at once, before it is known which are needed.
        uint64_t range = row[count + 1], next_range = number + 1 < pieces ? next[count + 1] : 0;
        uint64_t from = own <= count ? row[own] : 0, to = own <= count && number + 1 < pieces ? next[own] : 0;
        if (range == 0) return false;
        if (own < count) {
            start[own] = from;
            end[own] = next_range == range ? to : ranges.window(range - 1, own).y;
        }
        if (own == count) {
            place = from;
            last = next_range == range ? to : __ldg(ranges.offsets + range);
        }
        __syncthreads();
        return true;
    }

    /// Begins a range whose answer is not divided; returns whether it has any pairs. For the whole block.
    __device__ bool begin(const View<Key, Value>& view, const RangeOutput<Key, Value>& ranges, uint64_t range) {
        if (threadIdx.x < view.count) {
            ulonglong2 window = ranges.window(range, threadIdx.x);
            start[threadIdx.x] = window.x;
            end[threadIdx.x] = window.y;
        }
        if (threadIdx.x == 0) {
            place = __ldg(ranges.offsets + range);
            last = __ldg(ranges.offsets + range + 1);
        }
        __syncthreads();
        return place < last;
    }

    /// Returns whether most entries must be dead, since there are far fewer pairs.
    __device__ bool is_mostly_dead(int count) const { return left(count) > 4 * (last - place) + 4 * capacity(count); }

    /// Writes all pairs, tile by tile. For the whole block.
    __device__ void merge_all(const View<Key, Value>& view, const RangeOutput<Key, Value>& ranges) {
        while (step<false>(view, ranges)) {}
    }

    /// Like `merge_all`, but stops after the last pair, and skips long dead stretches.
    __device__ void merge_between_dead(const View<Key, Value>& view, const RangeOutput<Key, Value>& ranges) {
        int dead_tiles = 0;  // in a row
        for (uint64_t before = place; step<false>(view, ranges) && place < last; before = place) {
            dead_tiles = place == before ? dead_tiles + 1 : 0;
            if (dead_tiles > 0 && skip_dead(view, ranges, dead_tiles)) dead_tiles = 0;
        }
    }

    /// Advances past the dead stretch that the last `dead_tiles` tiles belong to, if its end is known, or if there
    /// were enough tiles for a search to pay off; returns whether it did. For the whole block.
    __device__ bool skip_dead(const View<Key, Value>& view, const RangeOutput<Key, Value>& ranges, int dead_tiles) {
        if (threadIdx.x < 32) {
            RunPositions positions(view.count);
            for (int run = 0; run < view.count; run++) positions.set(run, start[run], end[run]);
            Key key = next_key(view, positions);
            Key from = dead_tiles == 1 ? key : dead_from;
            bool finds = ranges.dead().skip(view.count, key, positions);
            if (!finds && dead_tiles >= DEAD_TILES) {
                Key live = next_live(view, positions);
                ranges.dead().add(view.count, from, live, positions);
                finds = true;
            }
            __syncwarp();
            for (int run = 0; finds && run < view.count; run++) {
                uint64_t to = positions.of(run);
                if (threadIdx.x == 0) start[run] = to;
            }
            if (threadIdx.x == 0) dead_from = from, skips = finds;
        }
        __syncthreads();
        return skips;
    }

    /// Return the number of entries left, and the number that fits in a tile of `count` runs, as `merge_pairs`
    /// requires.
    __device__ uint64_t left(int count) const { return sum_of(end, count) - sum_of(start, count); }
    __host__ __device__ static uint32_t capacity(int count) {
        return BLOCK * PER_THREAD - (count + 1) / 2 * PER_THREAD;
    }

    /// Writes the live pairs of as many entries as fit in a tile; returns whether any are left. With `FITS` all are
    /// known to fit. For the whole block, after a `begin` or the previous step.
    template <bool FITS>
    __device__ __forceinline__ bool step(const View<Key, Value>& view, const RangeOutput<Key, Value>& ranges) {
        int count = static_cast<int>(view.count), own = threadIdx.x;
        uint64_t left = FITS ? 0 : this->left(count);
        bool all = FITS || left <= capacity(count);
        if (!FITS) {
            if (own == 0) bound = HIGHEST<Key>;
            __syncthreads();
        }
        if (own < count) {
            // If not all entries fit, take a proportional share of every run. Keys greater than the least of the
            // last keys taken are left for the next tile.
            uint64_t len = end[own] - start[own];
            float share = __fdividef(0.999f * (capacity(count) - count), left);
            uint32_t taken = static_cast<uint32_t>(all ? len : min(len, static_cast<uint64_t>(len * share) + 1));
            const RunView<Key, Value>& run = view.runs[own];
            if (taken < len) lower_to(bound, run.keys[start[own] + taken - 1]);
            tile.parts[own].source = as_source(run);
            tile.parts[own].ahead = start[own];
            tile.offset[own + 1] = taken;
        }
        __syncthreads();
        load(tile, count);
        if (!FITS) {
            if (own < count) {
                uint32_t from = tile.offset[own], len = tile.offset[own + 1] - from;
                start[own] += all ? len : up_to(tile.keys + from, len, bound);
            }
            __syncthreads();  // before keys are moved
        }
        ThreadEntries<PER_THREAD, Key> mine = merge(tile, count);
        if (!FITS) {
            Key last = bound;
#pragma unroll
            for (int i = 0; i < PER_THREAD; i++) {
                if (mine.keys[i] > last) mine.lives &= ~(1u << i);
            }
        }
        uint32_t before, kept;
        pack(tile, mine, before, kept);
        uint64_t to = place + own;
        for (uint32_t i = own; i < kept; i += BLOCK, to += BLOCK) {
            ranges.keys[to] = tile.keys[i];
            if (sizeof(Value) == 1 || ranges.values == nullptr) continue;
            ranges.values[to] = tile.values[tile.entries[i].number()];
        }
        if (all) return false;
        __syncthreads();
        if (own == 0) place += kept;
        __syncthreads();
        return true;
    }
};

/// Merges long ranges, one block each, except those whose answers are divided.
template <int PER_THREAD, class Key, class Value>
__global__ void __launch_bounds__(RANGE_THREADS, range_blocks(sizeof(Key) + sizeof(Value)))
merge_long_kernel(const __grid_constant__ View<Key, Value> view,
                  const __grid_constant__ RangeOutput<Key, Value> ranges, AnswerPieces pieces) {
    __shared__ RangeMerge<RANGE_THREADS, PER_THREAD, Key, Value> merge;
    if (!ranges.has_room()) return;
    uint64_t pairs = __ldg(ranges.offsets + blockIdx.x + 1) - __ldg(ranges.offsets + blockIdx.x);
    if (pairs > pieces.size && threadIdx.x == 0) ranges.flags[HAS_PIECES] = 1;
    if (pairs == 0 || pairs > pieces.size) return;
    merge.begin(view, ranges, static_cast<uint64_t>(blockIdx.x));
    if (!merge.is_mostly_dead(static_cast<int>(view.count))) merge.merge_all(view, ranges);
    else if (threadIdx.x == 0) ranges.flags[HAS_DEAD] = 1;
}

/// Merges pieces of divided answers that fit in a tile, one block each.
template <int PER_THREAD, class Key, class Value>
__global__ void __launch_bounds__(THREADS, piece_blocks(sizeof(Key) + sizeof(Value)))
merge_pieces_kernel(const __grid_constant__ View<Key, Value> view,
                    const __grid_constant__ RangeOutput<Key, Value> ranges, AnswerPieces pieces) {
    __shared__ RangeMerge<THREADS, PER_THREAD, Key, Value> merge;
    if (!pieces.is_single && ranges.flags[HAS_PIECES] == 0) return;
    if (!merge.begin(view, ranges, blockIdx.x, pieces.count)) return;
    int count = static_cast<int>(view.count);
    if (merge.left(count) <= merge.capacity(count)) merge.template step<true>(view, ranges);
    else if (threadIdx.x == 0) ranges.flags[HAS_OVERSIZED] = 1;
}

/// Merges pieces of more entries than `capacity`, if `flag` says that there may be any. Uses as many blocks as can
/// run at once, since there are rarely many.
template <int PER_THREAD, class Key, class Value>
__global__ void __launch_bounds__(RANGE_THREADS, range_blocks(sizeof(Key) + sizeof(Value)) - 1)
merge_oversized_kernel(const __grid_constant__ View<Key, Value> view,
                       const __grid_constant__ RangeOutput<Key, Value> ranges, AnswerPieces pieces, uint32_t flag,
                       uint32_t capacity) {
    __shared__ RangeMerge<RANGE_THREADS, PER_THREAD, Key, Value> merge;
    if (ranges.flags[flag] == 0) return;
    for (uint32_t number = blockIdx.x; number < pieces.count; number += gridDim.x) {
        if (!merge.begin(view, ranges, number, pieces.count)) continue;
        bool is_dead = merge.is_mostly_dead(static_cast<int>(view.count));
        if (is_dead && threadIdx.x == 0) ranges.flags[HAS_DEAD] = 1;
        if (!is_dead && merge.left(static_cast<int>(view.count)) > capacity) merge.merge_all(view, ranges);
        __syncthreads();
    }
}

/// Merges ranges and pieces whose entries are mostly dead, which the other kernels skip.
template <int PER_THREAD, class Key, class Value>
__global__ void __launch_bounds__(RANGE_THREADS, DEAD_BLOCKS)
merge_dead_kernel(const __grid_constant__ View<Key, Value> view, const __grid_constant__ RangeOutput<Key, Value> ranges,
                  AnswerPieces pieces) {
    __shared__ RangeMerge<RANGE_THREADS, PER_THREAD, Key, Value> merge;
    if (ranges.flags[HAS_DEAD] == 0) return;
    int count = static_cast<int>(view.count);
    auto merge_dead = [&](bool is_there) {
        if (is_there && merge.is_mostly_dead(count)) merge.merge_between_dead(view, ranges);
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
    uint32_t capacity = many ? RangeMerge<THREADS, PER_THREAD, Key, Value>::capacity(static_cast<int>(view.count)) : 0;
    unsigned blocks = blocks_at_once(static_cast<uint64_t>(pieces.count) * THREADS, range_blocks(WIDTH));
    merge_oversized_kernel<PER_THREAD><<<blocks, RANGE_THREADS, 0, stream>>>(view, ranges, pieces, flag, capacity);
    blocks = blocks_at_once((ranges.len + pieces.count) * THREADS, DEAD_BLOCKS);
    merge_dead_kernel<PER_THREAD><<<blocks, RANGE_THREADS, 0, stream>>>(view, ranges, pieces);
}

}  // namespace gpulsm
