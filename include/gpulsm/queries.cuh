// One query by one thread, from any kernel: what the paper calls the individual approach.
//
// `select`, and through it `successor` and `predecessor`, take 1.5 KB of local memory per thread.
#pragma once

#include "marks.cuh"
#include "search.cuh"
#include "view.cuh"

namespace gpulsm {

/// Dead keys that a search for a neighbour passes before it continues by rank.
constexpr int MAX_WALK = 4;

template <class Value>
__device__ __forceinline__ Value zero() {
    return Value{};
}

/// Returns a value; a set has none.
template <class Value>
__device__ __forceinline__ Value value_at(const Value* values, uint64_t position) {
    return values[position];
}

__device__ __forceinline__ Nothing value_at(const Nothing*, uint64_t) { return {}; }

/// Finds the newest entry of a key among the runs from `first` on; returns its run, or -1, and its position.
template <class Key, class Value>
__device__ __forceinline__ int find(const View<Key, Value>& view, NotDeduced<Key> key, uint64_t& position,
                                    int first = 0) {
    for (int run = first; run < view.count; run++) {
        position = lower_bound(view.runs[run], key);
        if (position < length(view.runs[run]) && read_key(view.runs[run].keys + position) == key) {
            return run;
        }
    }
    return -1;
}

/// Returns the value of a live key whose newest entry is at `position` of a run. If values combine, those of older runs
/// are combined with it, up to one that combines with nothing older.
template <class Key, class Value>
__device__ __forceinline__ Value value_of(const View<Key, Value>& view, NotDeduced<Key> key, int run,
                                          uint64_t position) {
    Value value = value_at(view.runs[run].values, position);
    if constexpr (sizeof(Value) > 1) {
        while (view.combiner.combines() && combines_with_older(view.runs[run].marks, position)) {
            run = find(view, key, position, run + 1);
            if (run < 0 || !is_live(view.runs[run].marks, position)) break;
            value = view.combiner.combine(value_at(view.runs[run].values, position), value);
        }
    }
    return value;
}

/// Returns whether the dictionary holds the key.
template <class Key, class Value>
__device__ __forceinline__ bool contains(const View<Key, Value>& view, NotDeduced<Key> key) {
    uint64_t position;
    int run = find(view, key, position);
    return run >= 0 && is_live(view.runs[run].marks, position);
}

/// Returns whether the dictionary holds the key, and its value, or zeros.
template <class Key, class Value>
__device__ __forceinline__ bool lookup(const View<Key, Value>& view, NotDeduced<Key> key, Value& value) {
    uint64_t position;
    int run = find(view, key, position);
    bool found = run >= 0 && is_live(view.runs[run].marks, position);
    value = found ? value_of(view, key, run, position) : zero<Value>();
    return found;
}

/// Returns the number of keys.
template <class Key, class Value>
__device__ __forceinline__ uint64_t len(const View<Key, Value>& view) {
    int64_t sum = 0;
    for (int run = 0; run < view.count; run++) sum += __ldg(&view.runs[run].head->sum);
    return sum;
}

/// Returns how many keys are less than `key`.
template <class Key, class Value>
__device__ __forceinline__ uint64_t rank(const View<Key, Value>& view, NotDeduced<Key> key) {
    int64_t sum = 0;
    for (int run = 0; run < view.count; run++) {
        sum += sum_before(view.runs[run].marks, lower_bound(view.runs[run], key));
    }
    return sum;
}

/// Returns how many keys are not greater than `key`.
template <class Key, class Value>
__device__ __forceinline__ uint64_t rank_up_to(const View<Key, Value>& view, NotDeduced<Key> key) {
    return key == HIGHEST<Key> ? len(view) : rank(view, static_cast<Key>(key + 1));
}

/// Returns the sum of (live - shadow) over a run's entries with lo <= key <= hi.
template <class Key, class Value>
__device__ __forceinline__ int64_t sum_between(const RunView<Key, Value>& run, Key lo, Key hi) {
    if (lo > hi) return 0;
    uint64_t start = lower_bound(run, lo), end = upper_bound(run, hi);
    return start < end ? sum_before(run.marks, end) - sum_before(run.marks, start) : 0;
}

/// Returns how many keys k there are with lo <= k <= hi. Takes two searches per run, whatever the width of the
/// range.
template <class Key, class Value>
__device__ __forceinline__ uint64_t count(const View<Key, Value>& view, NotDeduced<Key> lo,
                                          NotDeduced<Key> hi) {
    int64_t sum = 0;
    for (int run = 0; run < view.count; run++) sum += sum_between(view.runs[run], lo, hi);
    return sum;
}

/// Finds the newest entry of the key that exactly `index` keys are less than; returns its run, or -1, and its position.
///
/// Its key is the largest of all entries, live or not, that at most `index` keys are less than. The search narrows
/// the windows of candidates in all runs together.
template <class Key, class Value>
__device__ int find_index(const View<Key, Value>& view, uint64_t index, Key& key, uint64_t& position) {
    key = 0;
    uint64_t above = len(view), below = 0;  // keys less than the ends and the starts of the windows
    if (index >= above) return -1;
    if (view.count == 1) {
        key = read_key(view.runs[0].keys + index);
        position = index;
        return 0;
    }
    uint64_t start[MAX_RUNS], end[MAX_RUNS], place[MAX_RUNS];
    for (int run = 0; run < view.count; run++) {
        start[run] = 0;
        end[run] = length(view.runs[run]);
    }
    for (uint32_t round = 0;; round++) {
        int widest = 0;
        for (int run = 1; run < view.count; run++) {
            if (end[run] - start[run] > end[widest] - start[widest]) widest = run;
        }
        uint64_t width = end[widest] - start[widest];
        if (width == 0) break;
        // Interpolate, as if keys were uniformly distributed. Every other round bisects, which bounds the cost for
        // skewed keys to twice that of bisection.
        double share = (index - below + 0.5) / static_cast<double>(above - below);
        uint64_t ahead = round % 2 ? width / 2 : min(static_cast<uint64_t>(width * share), width - 1);
        Key pivot = read_key(view.runs[widest].keys + start[widest] + ahead);
        uint64_t rank = 0;
        for (int run = 0; run < view.count; run++) {
            const Key* within = view.runs[run].keys + start[run];
            place[run] = start[run] + lower_bound(within, end[run] - start[run], pivot);
            rank += sum_before(view.runs[run].marks, place[run]);
        }
        if (rank > index) {
            for (int run = 0; run < view.count; run++) end[run] = place[run];
            above = rank;
            continue;
        }
        // Advance past the pivot in every run, so that it is never compared again.
        below = 0;
        for (int run = 0; run < view.count; run++) {
            bool here = place[run] < end[run] && read_key(view.runs[run].keys + place[run]) == pivot;
            start[run] = place[run] + here;
            below += sum_before(view.runs[run].marks, start[run]);
        }
        if (below > index) break;  // The pivot itself is the key.
    }
    // The newest run decides: the first of those that have the largest key before their window.
    int newest = -1;
    for (int run = 0; run < view.count; run++) {
        if (start[run] == 0) continue;
        Key last = read_key(view.runs[run].keys + start[run] - 1);
        if (newest < 0 || last > key) {
            newest = run;
            key = last;
        }
    }
    position = start[newest] - 1;
    return newest;
}

/// Finds the newest entry of the least live key that is not less than `from`; returns its run, or -1, and its position.
template <class Key, class Value>
__device__ int find_successor(const View<Key, Value>& view, NotDeduced<Key> from, Key& key, uint64_t& at) {
    key = 0;
    for (int step = 0; step < MAX_WALK; step++) {
        int nearest = -1;
        Key least = 0;
        for (int run = 0; run < view.count; run++) {
            uint64_t position = lower_bound(view.runs[run], from);
            if (position == length(view.runs[run])) continue;
            Key next = read_key(view.runs[run].keys + position);
            if (nearest < 0 || next < least) {
                nearest = run;
                at = position;
                least = next;
            }
        }
        if (nearest < 0) return -1;
        if (is_live(view.runs[nearest].marks, at)) {
            key = least;
            return nearest;
        }
        if (least == HIGHEST<Key>) return -1;
        from = least + 1;
    }
    return find_index(view, rank(view, from), key, at);
}

/// Finds the newest entry of the greatest live key that is not greater than `from`; returns its run, or -1, and its
/// position.
template <class Key, class Value>
__device__ int find_predecessor(const View<Key, Value>& view, NotDeduced<Key> from, Key& key, uint64_t& at) {
    key = 0;
    for (int step = 0; step < MAX_WALK; step++) {
        int nearest = -1;
        Key greatest = 0;
        for (int run = 0; run < view.count; run++) {
            uint64_t position = upper_bound(view.runs[run], from);
            if (position == 0) continue;
            Key last = read_key(view.runs[run].keys + position - 1);
            if (nearest < 0 || last > greatest) {
                nearest = run;
                at = position - 1;
                greatest = last;
            }
        }
        if (nearest < 0) return -1;
        if (is_live(view.runs[nearest].marks, at)) {
            key = greatest;
            return nearest;
        }
        if (greatest == 0) return -1;
        from = greatest - 1;
    }
    uint64_t up_to = rank_up_to(view, from);
    return up_to > 0 ? find_index(view, up_to - 1, key, at) : -1;
}

/// Finds the pair that exactly `index` keys are less than; returns whether there is one.
template <class Key, class Value>
__device__ bool select(const View<Key, Value>& view, uint64_t index, Key& key, Value& value) {
    uint64_t position;
    int run = find_index(view, index, key, position);
    value = run >= 0 ? value_of(view, key, run, position) : zero<Value>();
    return run >= 0;
}

/// Finds the pair with the least key that is not less than `from`; returns whether there is one.
template <class Key, class Value>
__device__ bool successor(const View<Key, Value>& view, NotDeduced<Key> from, Key& key, Value& value) {
    uint64_t position;
    int run = find_successor(view, from, key, position);
    value = run >= 0 ? value_of(view, key, run, position) : zero<Value>();
    return run >= 0;
}

/// Finds the pair with the greatest key that is not greater than `from`; returns whether there is one.
template <class Key, class Value>
__device__ bool predecessor(const View<Key, Value>& view, NotDeduced<Key> from, Key& key, Value& value) {
    uint64_t position;
    int run = find_predecessor(view, from, key, position);
    value = run >= 0 ? value_of(view, key, run, position) : zero<Value>();
    return run >= 0;
}

}  // namespace gpulsm
