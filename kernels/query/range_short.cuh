// Merges short ranges over several runs, by a thread each.
#pragma once

#include "dispatch.cuh"
#include "query/range_output.cuh"

namespace gpulsm {

/// A position in each of up to `RUNS` runs, from which one thread merges a range. With `COMBINES` the values of live keys
/// are combined; otherwise they are those of the newest runs that hold the keys.
template <bool COMBINES, int RUNS, class Key, class Value>
struct ThreadMerge {
    static constexpr int UNROLL = RUNS <= 8 ? RUNS : 1;

    /// Returns how many runs the loops below go over. (If this were not a constant without `COMBINES`, registers would
    /// spill.)
    __device__ static int runs(const View<Key, Value>& view) { return COMBINES ? static_cast<int>(view.count) : RUNS; }

    // The next entry of every run, and where the range ends there.
    uint64_t position[RUNS], stop[RUNS];
    Key next[RUNS];

    /// Finds the range's windows; returns how many entries they hold.
    template <class Ranges>
    __device__ __forceinline__ uint64_t find(const View<Key, Value>& view, const Ranges& ranges, uint64_t range) {
        uint64_t entries = 0;
#pragma unroll UNROLL
        for (int run = 0; run < runs(view); run++) {
            ulonglong2 window = run < view.count ? ranges.window(range, run) : make_ulonglong2(0, 0);
            position[run] = window.x;
            stop[run] = window.y;
            entries += window.y - window.x;
        }
        return entries;
    }

    /// Loads the first key of every window.
    __device__ __forceinline__ void begin(const View<Key, Value>& view) {
#pragma unroll UNROLL
        for (int run = 0; run < runs(view); run++) move(view, run, position[run]);
    }

    __device__ __forceinline__ void move(const View<Key, Value>& view, int run, uint64_t to) {
        position[run] = to;
        if (position[run] < stop[run]) next[run] = read_key(view.runs[run].keys + position[run]);
    }

    /// Finds the least of the next keys; returns whether there is any.
    __device__ __forceinline__ bool next_key(const View<Key, Value>& view, Key& key) const {
        bool any = false;
        key = 0;
#pragma unroll UNROLL
        for (int run = 0; run < runs(view); run++) {
            if (position[run] < stop[run] && (!any || next[run] < key)) any = true, key = next[run];
        }
        return any;
    }

    /// Moves past a key, the least of the next ones; returns whether it is live, and its value if that is wanted.
    __device__ __forceinline__ bool take(const View<Key, Value>& view, Key key, bool wants_value, Value& value) {
        // Of equal keys the entry of the newest run comes first and decides.
        bool live = false, is_newest = true, combines = false;
        value = zero<Value>();
#pragma unroll UNROLL
        for (int run = 0; run < runs(view); run++) {
            if (position[run] >= stop[run] || next[run] != key) continue;
            if (is_newest) {
                live = is_live(view.runs[run].marks, position[run]);
                if (live && wants_value) value = value_at(view.runs[run].values, position[run]);
                combines = live;
            } else if constexpr (COMBINES) {
                combines = combines && is_live(view.runs[run].marks, position[run]);
                if (combines) value = view.combiner.combine(value_at(view.runs[run].values, position[run]), value);
            }
            if (COMBINES) combines = combines && combines_with_older(view.runs[run].marks, position[run]);
            is_newest = false;
            move(view, run, position[run] + 1);
        }
        return live;
    }
};

/// A short range over up to `RUNS` runs, merged by one thread: with `DEAD` only ranges whose entries are mostly
/// dead, else only the others. The rest are left empty.
template <bool DEAD, int RUNS, class Key, class Value>
struct ShortRange : ThreadMerge<false, RUNS, Key, Value> {
    using Merge = ThreadMerge<false, RUNS, Key, Value>;
    using Merge::move, Merge::next_key, Merge::position, Merge::stop, Merge::UNROLL;
    uint64_t place, end;  // output position of the next pair, and the end of the answer
    int dead;             // keys in a row

    __device__ ShortRange(const View<Key, Value>& view, const RangeOutput<Key, Value>& ranges, uint64_t range)
        : place(0), end(0), dead(0) {
        if (range >= ranges.len || !ranges.has_room()) return;
        place = __ldg(ranges.offsets + range);
        end = __ldg(ranges.offsets + range + 1);
        uint64_t left = this->find(view, ranges, range);
        bool is_mostly_dead = place < end && left > 4 * (end - place) + FEW_STALE;
        if (!DEAD && is_mostly_dead) ranges.flags[HAS_DEAD] = 1;
        if (DEAD != is_mostly_dead) end = place;
        if (place < end) this->begin(view);
    }

    /// Writes pairs until all are written or, with `DEAD`, `DEAD_KEYS` keys in a row were dead.
    __device__ void merge(const View<Key, Value>& view, const RangeOutput<Key, Value>& ranges) {
        while (place < end && (!DEAD || dead < DEAD_KEYS)) {
            Key key;
            if (!next_key(view, key)) return;
            Value value;
            bool live = this->take(view, key, ranges.values != nullptr, value);
            dead = live ? 0 : dead + 1;
            if (!live) continue;
            ranges.keys[place] = key;
            if (sizeof(Value) > 1 && ranges.values != nullptr) ranges.values[place] = value;
            place++;
        }
    }

    /// Advances past the dead stretch that one lane of the warp is in, and with it all other lanes in the same one.
    /// For the whole warp; returns whether any lane was in one.
    __device__ bool skip_dead(const View<Key, Value>& view) {
        bool is_stuck = dead == DEAD_KEYS && place < end;
        unsigned stuck = __ballot_sync(~0u, is_stuck);
        if (stuck == 0) return false;
        int owner = __ffs(stuck) - 1;
        RunPositions positions(view.count);
#pragma unroll UNROLL
        for (int run = 0; run < RUNS; run++) {
            uint64_t from = __shfl_sync(~0u, position[run], owner), to = __shfl_sync(~0u, stop[run], owner);
            positions.set(run, from, to);
        }
        Key own = 0;
        next_key(view, own);
        Key first = shuffle(~0u, own, owner), live = next_live(view, positions);
        bool skips = is_stuck && own >= first && own < live;
#pragma unroll UNROLL
        for (int run = 0; run < RUNS; run++) {
            uint64_t to = positions.of(run);
            if (skips && run < view.count) move(view, run, to);
        }
        if (skips || threadIdx.x % 32 == owner) dead = 0;
        return true;
    }
};

/// Merges short ranges, except those that are mostly dead.
template <int RUNS, class Key, class Value>
__global__ void __launch_bounds__(THREADS)
merge_short_kernel(const __grid_constant__ View<Key, Value> view,
                   const __grid_constant__ RangeOutput<Key, Value> ranges) {
    uint64_t range = blockIdx.x * static_cast<uint64_t>(THREADS) + threadIdx.x;
    ShortRange<false, RUNS, Key, Value>(view, ranges, range).merge(view, ranges);
}

/// Merges short ranges that are mostly dead.
template <int RUNS, class Key, class Value>
__global__ void __launch_bounds__(THREADS)
merge_short_dead_kernel(const __grid_constant__ View<Key, Value> view,
                        const __grid_constant__ RangeOutput<Key, Value> ranges) {
    if (ranges.flags[HAS_DEAD] == 0) return;
    uint64_t range = blockIdx.x * static_cast<uint64_t>(THREADS) + threadIdx.x;
    ShortRange<true, RUNS, Key, Value> mine(view, ranges, range);
    do mine.merge(view, ranges);
    while (mine.skip_dead(view));
}

/// Writes the pairs of short ranges over up to `RUNS` runs.
template <int RUNS, class Key, class Value>
void merge_short(const View<Key, Value>& view, const RangeOutput<Key, Value>& ranges, cudaStream_t stream) {
    unsigned blocks = blocks_for(ranges.len, THREADS);
    merge_short_kernel<RUNS><<<blocks, THREADS, 0, stream>>>(view, ranges);
    merge_short_dead_kernel<RUNS><<<blocks, THREADS, 0, stream>>>(view, ranges);
}

}  // namespace gpulsm
