// Writing the pairs of ranges, each straight to its place: how many there are is known beforehand, and
// where each range begins and ends in every run.
#include "cut.cuh"
#include "dispatch.cuh"
#include "index.cuh"
#include "tile.cuh"

namespace gpulsm {

/// Ranges and where their answers go: answer i to `offsets[i]` and on.
template <class Key, class Value>
struct Ranges {
    uint64_t len;
    const uint64_t* offsets;
    const ulonglong2* windows;  // first position and end, of all ranges in one run after the other
    uint64_t room;              // for so many pairs; if they are more, nothing is written
    uint64_t total;             // of how many ranges the offsets are: the last of them is the number of pairs
    Key* keys;
    Value* values;  // null where they are not wanted

    __device__ ulonglong2 window(uint64_t range, int run) const { return __ldg(windows + run * len + range); }

    __device__ void write(uint64_t place, Key key, const Value* from, uint64_t position) const {
        keys[place] = key;
        if (sizeof(Value) > 1 && values != nullptr) values[place] = value_at(from, position);
    }
};

/// A stretch of one answer.
struct Piece {
    uint64_t range, part;  // the part-th piece of this range's answer
    uint64_t begin, end;   // which pairs of all answers laid end to end
};

/// Finds the piece of a number, of pieces of `size` pairs. The first piece of range i is number i. The
/// others follow, those of range i from number len + offsets[i] / size on: that leaves room for every one,
/// and a few numbers without one, and needs no counting.
template <class Key, class Value>
__device__ bool find_piece(const Ranges<Key, Value>& ranges, uint64_t number, uint64_t size, Piece& piece) {
    if (__ldg(ranges.offsets + ranges.total) > ranges.room) return false;
    uint64_t first = number, start = __ldg(ranges.offsets), part = 0;
    if (number >= ranges.len) {
        number -= ranges.len;
        // The last range whose number is not greater.
        first = 0;
        for (uint64_t len = ranges.len; len > 1;) {
            uint64_t half = len / 2, middle = first + half;
            bool up = __ldg(ranges.offsets + middle) / size - start / size <= number;
            first = up ? middle : first;
            len = up ? len - half : half;
        }
        part = 1 + number - (__ldg(ranges.offsets + first) / size - start / size);
    }
    piece.range = first;
    piece.part = part;
    piece.begin = __ldg(ranges.offsets + first) + part * size;
    piece.end = min(__ldg(ranges.offsets + first + 1), piece.begin + size);
    return piece.begin < piece.end;
}

/// Where ranges begin and end in every run, and how many keys they have.
template <class Key>
__global__ void __launch_bounds__(THREADS, INDEX_BLOCKS<Key>)
window_kernel(const __grid_constant__ View<Key, Nothing> view, const Key* lo, const Key* hi, uint64_t len,
              uint32_t tops, ulonglong2* windows, uint64_t* counts) {
    extern __shared__ __align__(16) unsigned char room[];
    __shared__ Index<Key, Nothing> index;
    index.load(view, reinterpret_cast<Key*>(room), tops);
    for_each_in_warps(len, [&](uint64_t at) {
        Key from = at < len ? lo[at] : 1, to = at < len ? hi[at] : 0;
        bool looks = from <= to, to_the_end = to == HIGHEST<Key>;
        int64_t sum = 0;
        for (int run = 0; run < view.count; run++) {
            uint64_t start = index.find(run, from, looks).position;
            uint64_t end = index.find(run, static_cast<Key>(to + 1), looks && !to_the_end).position;
            if (to_the_end) end = index.len[run];
            if (at >= len) continue;
            windows[run * len + at] = looks ? make_ulonglong2(start, end) : make_ulonglong2(0, 0);
            const Sector* marks = index.runs[run].marks;
            if (looks) sum += sum_before(marks, end) - sum_before(marks, start);
        }
        if (at < len && counts != nullptr) counts[at] = sum;
    });
}

/// Over one run, whose entries are all new: plain copies, by `LANES` neighbours each.
template <int LANES, class Key, class Value>
__global__ void __launch_bounds__(THREADS)
copy_kernel(const __grid_constant__ Run<Key, Value> run, const __grid_constant__ Ranges<Key, Value> ranges) {
    uint64_t thread = blockIdx.x * static_cast<uint64_t>(THREADS) + threadIdx.x;
    Piece piece;
    if (!find_piece(ranges, thread / LANES, COPY_PIECE, piece)) return;
    uint64_t start = ranges.window(piece.range, 0).x + piece.part * COPY_PIECE;
    uint32_t len = static_cast<uint32_t>(piece.end - piece.begin);
    const Key* keys = run.keys + start;
    // A few at a time, so that they are waited for together.
    constexpr int MANY = 4;
    uint32_t i = thread % LANES;
    for (; i + (MANY - 1) * LANES < len; i += MANY * LANES) {
        Key some[MANY];
        Value values[MANY];
#pragma unroll
        for (int j = 0; j < MANY; j++) {
            some[j] = __ldg(keys + i + j * LANES);
            if (ranges.values != nullptr) values[j] = value_at(run.values, start + i + j * LANES);
        }
#pragma unroll
        for (int j = 0; j < MANY; j++) {
            ranges.keys[piece.begin + i + j * LANES] = some[j];
            if (sizeof(Value) > 1 && ranges.values != nullptr) ranges.values[piece.begin + i + j * LANES] = values[j];
        }
    }
    for (; i < len; i += LANES) ranges.write(piece.begin + i, __ldg(keys + i), run.values, start + i);
}

/// Short ranges over up to `RUNS` runs: a merge by one thread each.
template <int RUNS, class Key, class Value>
__global__ void __launch_bounds__(THREADS)
merge_short_kernel(const __grid_constant__ View<Key, Value> view,
                   const __grid_constant__ Ranges<Key, Value> ranges) {
    uint64_t range = blockIdx.x * static_cast<uint64_t>(THREADS) + threadIdx.x;
    if (range >= ranges.len || __ldg(ranges.offsets + ranges.total) > ranges.room) return;
    constexpr int UNROLL = RUNS <= 8 ? RUNS : 1;
    // The next entry of every run, and where the range ends there.
    uint64_t position[RUNS], stop[RUNS];
    Key next[RUNS];
#pragma unroll UNROLL
    for (int run = 0; run < RUNS; run++) {
        ulonglong2 window = run < view.count ? ranges.window(range, run) : make_ulonglong2(0, 0);
        position[run] = window.x;
        stop[run] = window.y;
        if (position[run] < stop[run]) next[run] = __ldg(view.runs[run].keys + position[run]);
    }
    uint64_t place = __ldg(ranges.offsets + range), end = __ldg(ranges.offsets + range + 1);
    while (place < end) {
        // Of equal keys the newest run's entry comes first, and decides.
        bool any = false, live = false;
        Key key = 0;
        Value value = zero<Value>();
#pragma unroll UNROLL
        for (int run = 0; run < RUNS; run++) {
            if (position[run] < stop[run] && (!any || next[run] < key)) any = true, key = next[run];
        }
        if (!any) return;
        bool is_newest = true;
#pragma unroll UNROLL
        for (int run = 0; run < RUNS; run++) {
            if (position[run] >= stop[run] || next[run] != key) continue;
            if (is_newest) {
                live = is_live(view.runs[run].marks, position[run]);
                if (live && ranges.values != nullptr) value = value_at(view.runs[run].values, position[run]);
            }
            is_newest = false;
            position[run]++;
            if (position[run] < stop[run]) next[run] = __ldg(view.runs[run].keys + position[run]);
        }
        if (!live) continue;
        ranges.keys[place] = key;
        if (sizeof(Value) > 1 && ranges.values != nullptr) ranges.values[place] = value;
        place++;
    }
}

__device__ __forceinline__ void lower_to(uint32_t& bound, uint32_t key) { atomicMin(&bound, key); }

__device__ __forceinline__ void lower_to(uint64_t& bound, uint64_t key) {
    atomicMin(reinterpret_cast<unsigned long long*>(&bound), static_cast<unsigned long long>(key));
}

/// What a block that merges a piece of a range knows of it.
template <class Key>
struct Range {
    Windows<Key> windows;
    uint64_t end[MAX_SOURCES];  // of the piece, in every run
    int64_t sums[MAX_SOURCES];
    Piece piece;
    bool is_there;
    Key bound;  // of what is merged next
};

/// How many keys of the range are less than the pivot's place in every run, or, with `PAST`, behind it. For
/// the whole block.
template <bool PAST, class Key, class Value>
__device__ int64_t rank_of_pivot(const View<Key, Value>& view, Range<Key>& range, const Ranges<Key, Value>& ranges) {
    for (int run = threadIdx.x; run < view.count; run += RANGE_THREADS) {
        const Sector* marks = view.runs[run].marks;
        uint64_t start = ranges.window(range.piece.range, run).x;
        uint64_t place = PAST ? range.windows.past[run] : range.windows.place[run];
        range.sums[run] = sum_before(marks, place) - sum_before(marks, start);
    }
    __syncthreads();
    int64_t sum = 0;
    for (int run = threadIdx.x % 32; run < view.count; run += 32) sum += range.sums[run];
    sum = add_up_lanes<32>(sum);
    __syncthreads();
    return sum;
}

/// Finds where about `goal` keys of a range come before, in every run: at most so many, and at most `SLACK`
/// fewer, or as near as there is a key; its end if there are no more than `goal`. Returns how many do, where
/// it is not the end. For the whole block.
template <class Key, class Value>
__device__ int64_t cut_range(const View<Key, Value>& view, const Ranges<Key, Value>& ranges, Range<Key>& range,
                             uint64_t goal, uint64_t* cuts) {
    Windows<Key>& windows = range.windows;
    int count = static_cast<int>(view.count);
    for (int run = threadIdx.x; run < count; run += RANGE_THREADS) {
        ulonglong2 window = ranges.window(range.piece.range, run);
        windows.keys[run] = view.runs[run].keys;
        windows.start[run] = window.x;
        windows.end[run] = window.y;
    }
    __syncthreads();
    uint64_t range_at = range.piece.range;
    int64_t below = 0, above = __ldg(ranges.offsets + range_at + 1) - __ldg(ranges.offsets + range_at);
    bool to_the_end = static_cast<int64_t>(goal) >= above;
    for (uint32_t round = 0; !to_the_end && static_cast<int64_t>(goal) - below > SLACK; round++) {
        uint64_t entries = add_up(windows.end, count) - add_up(windows.start, count);
        if (entries == 0) break;
        bool halve = round > 3 && round % 2 == 0;
        float share = halve ? 0.5f : __fdividef(goal - below - SLACK / 2, above - below);
        Key pivot = choose_pivot<RANGE_THREADS>(windows, count, min(max(share, 0.0f), 1.0f), entries);
        place_pivot<RANGE_THREADS>(windows, count, share, pivot);
        int64_t less = rank_of_pivot<false>(view, range, ranges);
        if (less > static_cast<int64_t>(goal)) {
            above = less;
            for (int run = threadIdx.x; run < count; run += RANGE_THREADS) windows.end[run] = windows.place[run];
        } else {
            int64_t up_to = rank_of_pivot<true>(view, range, ranges);
            if (up_to > static_cast<int64_t>(goal)) {  // The pivot is the last key before the goal.
                below = less;
                for (int run = threadIdx.x; run < count; run += RANGE_THREADS) windows.start[run] = windows.place[run];
                __syncthreads();
                break;
            }
            below = up_to;
            for (int run = threadIdx.x; run < count; run += RANGE_THREADS) windows.start[run] = windows.past[run];
        }
        __syncthreads();
    }
    for (int run = threadIdx.x; run < count; run += RANGE_THREADS) {
        cuts[run] = to_the_end ? windows.end[run] : windows.start[run];
    }
    __syncthreads();
    return below;
}

/// Finds the piece of a number, of pieces of `MERGE_PIECE` pairs of ranges that have more than one. Those of
/// range i begin with number offsets[i] / half a piece: that leaves room for all.
template <class Key, class Value>
__device__ bool find_part(const Ranges<Key, Value>& ranges, uint64_t number, Piece& piece) {
    constexpr uint64_t HALF = MERGE_PIECE / 2;
    uint64_t start = __ldg(ranges.offsets) / HALF, range = 0;
    for (uint64_t len = ranges.len; len > 1;) {
        uint64_t half = len / 2, middle = range + half;
        bool up = __ldg(ranges.offsets + middle) / HALF - start <= number;
        range = up ? middle : range;
        len = up ? len - half : half;
    }
    uint64_t first = __ldg(ranges.offsets + range), end = __ldg(ranges.offsets + range + 1);
    uint64_t part = number - (first / HALF - start), begin = first + part * MERGE_PIECE;
    piece = {range, part, begin, min(end, begin + MERGE_PIECE)};
    return end - first > MERGE_PIECE && begin < end;
}

/// Long ranges over several runs: a block each, tile by tile. With `PARTS`, those whose answers are shared
/// out among several blocks; else all others.
template <bool PARTS, int PER_THREAD, class Key, class Value>
__global__ void __launch_bounds__(RANGE_THREADS, range_blocks(PARTS, sizeof(Key) + sizeof(Value)))
merge_long_kernel(const __grid_constant__ View<Key, Value> view,
                  const __grid_constant__ Ranges<Key, Value> ranges) {
    __shared__ MergeTile<false, RANGE_THREADS, PER_THREAD, Key, Value> tile;
    __shared__ Range<Key> range;
    int count = static_cast<int>(view.count);
    if (__ldg(ranges.offsets + ranges.total) > ranges.room) return;
    uint64_t* start = range.windows.start;
    uint64_t at = blockIdx.x, place;
    if constexpr (PARTS) {
        if (threadIdx.x == 0) range.is_there = find_part(ranges, blockIdx.x, range.piece);
        __syncthreads();
        if (!range.is_there) return;
        at = range.piece.range;
        place = __ldg(ranges.offsets + at);
        cut_range(view, ranges, range, (range.piece.part + 1) * MERGE_PIECE, range.end);
        place += cut_range(view, ranges, range, range.piece.part * MERGE_PIECE, start);
    } else {
        place = __ldg(ranges.offsets + at);
        uint64_t pairs = __ldg(ranges.offsets + at + 1) - place;
        if (pairs == 0 || pairs > MERGE_PIECE) return;
        for (int run = threadIdx.x; run < count; run += RANGE_THREADS) {
            ulonglong2 window = ranges.window(at, run);
            start[run] = window.x;
            range.end[run] = window.y;
        }
        __syncthreads();
    }

    uint32_t most = tile.MOST - (count + 1) / 2 * PER_THREAD;  // as `merge_pairs` wants it
    while (true) {
        // Of every run as many entries as it has its share in the rest; what lies behind the least of the last
        // ones is left for the next tile.
        uint64_t left = add_up(range.end, count) - add_up(start, count);
        if (left == 0) return;
        bool all = left <= most;
        if (threadIdx.x == 0) range.bound = HIGHEST<Key>;
        __syncthreads();
        uint32_t taken = 0;
        if (threadIdx.x < count) {
            uint64_t own = range.end[threadIdx.x] - start[threadIdx.x];
            float share = __fdividef(0.999f * (most - count), left);
            taken = static_cast<uint32_t>(all ? own : min(own, static_cast<uint64_t>(own * share) + 1));
            if (taken < own) lower_to(range.bound, view.runs[threadIdx.x].keys[start[threadIdx.x] + taken - 1]);
        }
        __syncthreads();
        if (threadIdx.x < count) {
            const Run<Key, Value>& run = view.runs[threadIdx.x];
            uint64_t from = start[threadIdx.x];
            if (!all && taken > 0) {
                const Key* keys = run.keys + from;
                Key bound = range.bound;
                taken = lower_bound(keys, taken, bound);
                if (from + taken < range.end[threadIdx.x] && keys[taken] == bound) taken++;
            }
            tile.parts[threadIdx.x].source = {run.keys, run.values, run.marks, nullptr, nullptr, nullptr, Kind::Run};
            tile.parts[threadIdx.x].ahead = from;
            tile.offset[threadIdx.x + 1] = taken;
            start[threadIdx.x] = from + taken;
        }
        __syncthreads();
        load(tile, count);
        Stretch<PER_THREAD, Key> mine = merge(tile, count);
        uint32_t before, kept;
        pack(tile, mine, before, kept);
        for (uint32_t i = threadIdx.x; i < kept; i += RANGE_THREADS) {
            ranges.keys[place + i] = tile.keys[i];
            if (sizeof(Value) > 1 && ranges.values != nullptr) ranges.values[place + i] = tile.values[tile.items[i].number()];
        }
        place += kept;
        __syncthreads();
    }
}

}  // namespace gpulsm

using namespace gpulsm;

/// Writes where each range begins and ends in every run and, unless `counts` is null, how many keys it has.
GPULSM_EXPORT gpulsm_windows(int key_width, const View<char, char>* view, const void* lo, const void* hi, uint64_t len,
                             ulonglong2* windows, uint64_t* counts, cudaStream_t stream) {
    return with_key(key_width, [&](auto key) -> int {
        using Key = typename decltype(key)::type;
        IndexLaunch launch = IndexLaunch::of<Key>(len, view->count);
        window_kernel<<<launch.blocks, THREADS, launch.bytes, stream>>>(
            typed<Key, Nothing>(*view), static_cast<const Key*>(lo), static_cast<const Key*>(hi), len, launch.tops,
            windows, counts);
        return cudaGetLastError();
    });
}

/// Writes the pairs of every range, if there is room for all of them.
GPULSM_EXPORT gpulsm_range(int key_width, int value_width, const View<char, char>* view,
                           const Ranges<char, char>* ranges, cudaStream_t stream) {
    return with_pair(key_width, value_width, [&](auto key, auto value) -> int {
        using Key = typename decltype(key)::type;
        using Value = typename decltype(value)::type;
        auto runs = typed<Key, Value>(*view);
        const auto& to = reinterpret_cast<const Ranges<Key, Value>&>(*ranges);
        bool are_long = to.room / to.total >= LONG_RANGE;
        if (runs.count <= 1) {
            uint64_t pieces = to.len + to.room / COPY_PIECE + 1;
            auto copy = are_long ? copy_kernel<32, Key, Value> : copy_kernel<COPY_LANES, Key, Value>;
            copy<<<blocks_for(pieces * (are_long ? 32 : COPY_LANES), THREADS), THREADS, 0, stream>>>(runs.runs[0], to);
        } else if (are_long) {
            constexpr int ITEMS_OF_RANGE = range_items(sizeof(Key) + sizeof(Value));
            unsigned blocks = static_cast<unsigned>(to.len), parts = static_cast<unsigned>(to.room / (MERGE_PIECE / 2) + 1);
            merge_long_kernel<false, ITEMS_OF_RANGE><<<blocks, RANGE_THREADS, 0, stream>>>(runs, to);
            merge_long_kernel<true, ITEMS_OF_RANGE><<<parts, RANGE_THREADS, 0, stream>>>(runs, to);
        } else {
            auto merge = runs.count <= 8 ? merge_short_kernel<8, Key, Value> : merge_short_kernel<MAX_RUNS, Key, Value>;
            merge<<<blocks_for(to.len, THREADS), THREADS, 0, stream>>>(runs, to);
        }
        return cudaGetLastError();
    });
}
