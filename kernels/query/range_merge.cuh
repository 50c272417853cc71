// Merges windows of several runs in shared memory, tile by tile, by a block per range or piece.
#pragma once

#include "merge/rounds.cuh"
#include "query/range_output.cuh"

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

/// Lowers a bound in shared memory to the least of the threads' keys, or leaves it at the highest key if no thread has
/// one. For the whole block, which sees the result after it has been synchronized.
template <class Key>
__device__ __forceinline__ void lower_to(Key& bound, Key key, bool has_key) {
    using Word = unsigned long long;
    if constexpr (sizeof(Key) == 4) {
        if (has_key) atomicMin(&bound, key);
    } else if constexpr (sizeof(Key) == 8) {
        if (has_key) atomicMin(reinterpret_cast<Word*>(&bound), static_cast<Word>(key));
    } else {
        // The upper half first, then the lower one among the keys that share the upper one.
        Word *low = reinterpret_cast<Word*>(&bound), *high = low + 1;
        if (has_key) atomicMin(high, static_cast<Word>(key >> 64));
        __syncthreads();
        if (has_key && *high == static_cast<Word>(key >> 64)) atomicMin(low, static_cast<Word>(key));
    }
}

/// The merge of a range, or of a piece of one, by a block: a window of every run, tile by tile. With `COMBINES` the values
/// of live keys are combined; otherwise they are those of the newest runs that hold the keys.
template <bool COMBINES, int BLOCK, int PER_THREAD, class Key, class Value>
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

    /// Merges all entries, tile by tile. For the whole block.
    template <class Output>
    __device__ void merge_all(const View<Key, Value>& view, Output& output) {
        while (step<false>(view, output)) {}
    }

    /// Like `merge_all`, but stops after the last pair, and skips long dead stretches.
    template <class Output>
    __device__ void merge_between_dead(const View<Key, Value>& view, Output& output, DeadStretches<Key>& dead) {
        int dead_tiles = 0;  // in a row
        for (uint64_t before = place; step<false>(view, output) && place < last; before = place) {
            dead_tiles = place == before ? dead_tiles + 1 : 0;
            if (dead_tiles > 0 && skip_dead(view, dead, dead_tiles)) dead_tiles = 0;
        }
    }

    /// Advances past the dead stretch that the last `dead_tiles` tiles belong to, if its end is known, or if there
    /// were enough tiles for a search to pay off; returns whether it did. For the whole block.
    __device__ bool skip_dead(const View<Key, Value>& view, DeadStretches<Key>& dead, int dead_tiles) {
        if (threadIdx.x < 32) {
            RunPositions positions(view.count);
            for (int run = 0; run < view.count; run++) positions.set(run, start[run], end[run]);
            Key key = next_key(view, positions);
            Key from = dead_tiles == 1 ? key : dead_from;
            bool finds = dead.skip(view.count, key, positions);
            if (!finds && dead_tiles >= DEAD_TILES) {
                Key live = next_live(view, positions);
                dead.add(view.count, from, live, positions);
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

    /// Merges as many entries as fit in a tile, and passes those that are live to `output.take`, with this merge;
    /// returns whether any are left. With `FITS` all are known to fit. For the whole block, after a `begin` or the
    /// previous step.
    template <bool FITS, class Output>
    __device__ __forceinline__ bool step(const View<Key, Value>& view, Output& output) {
        int count = static_cast<int>(view.count), own = threadIdx.x;
        uint64_t left = FITS ? 0 : this->left(count);
        bool all = FITS || left <= capacity(count);
        if (!FITS) {
            if (own == 0) bound = HIGHEST<Key>;
            __syncthreads();
        }
        Key last_taken = 0;
        bool leaves_some = false;
        if (own < count) {
            // If not all entries fit, take a proportional share of every run. Keys greater than the least of the
            // last keys taken are left for the next tile.
            uint64_t len = end[own] - start[own];
            float share = __fdividef(0.999f * (capacity(count) - count), left);
            uint32_t share_len = static_cast<uint32_t>(all ? len : min(len, static_cast<uint64_t>(len * share) + 1));
            const RunView<Key, Value>& run = view.runs[own];
            leaves_some = share_len < len;
            if (leaves_some) last_taken = run.keys[start[own] + share_len - 1];
            tile.parts[own].source = as_source(run);
            tile.parts[own].ahead = start[own];
            tile.offset[own + 1] = share_len;
        }
        if (!FITS) lower_to(bound, last_taken, leaves_some);
        __syncthreads();
        load<COMBINES>(tile, count);
        if (!FITS) {
            if (own < count) {
                uint32_t from = tile.offset[own], len = tile.offset[own + 1] - from;
                start[own] += all ? len : up_to(tile.keys + from, len, bound);
            }
            __syncthreads();  // before keys are moved
        }
        auto merged = [&] {
            if constexpr (COMBINES) return merge_combining(tile, count, view.combiner);
            else return merge(tile, count);
        };
        ThreadEntries<PER_THREAD, Key> mine = merged();
        if (!FITS) {
            Key last = bound;
#pragma unroll
            for (int i = 0; i < PER_THREAD; i++) {
                if (mine.keys[i] > last) mine.lives &= ~(1u << i);
            }
        }
        uint32_t taken = output.take(*this, mine);
        if (all) return false;
        __syncthreads();
        if (own == 0) place += taken;
        __syncthreads();
        return true;
    }
};

}  // namespace gpulsm
