// Writing the pairs of ranges, each straight to its place: how many there are is known beforehand, and
// where each range begins and ends in every run.
#include "cut.cuh"
#include "dispatch.cuh"
#include "tile.cuh"

namespace gpulsm {

/// Ranges and where their answers go: answer i to `offsets[i]` and on.
template <class Key, class Value>
struct Ranges {
    uint64_t len;
    const uint64_t* offsets;
    const ulonglong2* windows;  // as `count.cu` writes them
    uint64_t room;              // for so many pairs; if they are more, nothing is written
    uint64_t total;             // of how many ranges the offsets are: the last of them is the number of pairs
    Key* keys;
    Value* values;  // null where they are not wanted
    // Of answers that are shared out among blocks: whether there are any, and where each piece begins.
    uint64_t* has_parts;
    uint64_t* parts;

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

/// How many of so many sorted keys in shared memory are not greater than `key`.
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

/// How many keys of a range come before these places in every run. For a whole warp.
template <class Key, class Value>
__device__ int64_t rank_in_range(const View<Key, Value>& view, const Ranges<Key, Value>& ranges, uint64_t range,
                                 const uint64_t* places) {
    int64_t sum = 0;
    for (int run = threadIdx.x % 32; run < view.count; run += 32) {
        const Sector* marks = view.runs[run].marks;
        sum += sum_before(marks, places[run]) - sum_before(marks, ranges.window(range, run).x);
    }
    return add_up_lanes<32>(sum);
}

/// Finds where about `goal` keys of a range come before, in every run (`windows.start`): at most so many,
/// and at most `SLACK` fewer, or as near as there is a key. Returns how many do. For a whole warp.
template <class Key, class Value>
__device__ int64_t cut_range(const View<Key, Value>& view, const Ranges<Key, Value>& ranges, uint64_t range,
                             int64_t goal, Windows<Key>& windows) {
    int count = static_cast<int>(view.count), lane = threadIdx.x % 32;
    for (int run = lane; run < count; run += 32) {
        ulonglong2 window = ranges.window(range, run);
        windows.keys[run] = view.runs[run].keys;
        windows.start[run] = window.x;
        windows.end[run] = window.y;
    }
    __syncwarp();
    int64_t below = 0, above = __ldg(ranges.offsets + range + 1) - __ldg(ranges.offsets + range);
    for (uint32_t round = 0; goal - below > SLACK; round++) {
        uint64_t entries = add_up(windows.end, count) - add_up(windows.start, count);
        if (entries == 0) break;
        bool halve = round > 3 && round % 2 == 0;
        float share = halve ? 0.5f : __fdividef(goal - below - SLACK / 2, above - below);
        Key pivot = choose_pivot<32>(windows, count, share, entries);
        place_pivot<32>(windows, count, share, pivot);
        int64_t less = rank_in_range(view, ranges, range, windows.place);
        int64_t up_to = less > goal ? less : rank_in_range(view, ranges, range, windows.past);
        // The pivot is behind the goal, before it, or the last key before it.
        bool is_behind = less > goal, is_last = !is_behind && up_to > goal;
        for (int run = lane; run < count; run += 32) {
            if (is_behind) windows.end[run] = windows.place[run];
            else windows.start[run] = is_last ? windows.place[run] : windows.past[run];
        }
        __syncwarp();
        (is_behind ? above : below) = is_behind || is_last ? less : up_to;
        if (is_last) break;
    }
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

/// Where each piece of an answer that has several begins: in every run, in the answers, and of which range it
/// is, counted from 1; 0 if there is no such piece. By a warp each.
template <class Key, class Value>
__global__ void __launch_bounds__(THREADS, 4)
cut_ranges_kernel(const __grid_constant__ View<Key, Value> view, const __grid_constant__ Ranges<Key, Value> ranges,
                  uint64_t parts) {
    __shared__ Windows<Key> windows_of_warps[WARPS];
    uint64_t number = (blockIdx.x * static_cast<uint64_t>(THREADS) + threadIdx.x) / 32;
    if (*ranges.has_parts == 0 || number >= parts) return;
    Windows<Key>& windows = windows_of_warps[threadIdx.x / 32];
    uint64_t* row = ranges.parts + number * (view.count + 2);
    Piece piece;
    bool is_there = find_part(ranges, number, piece);
    int64_t before = is_there ? cut_range(view, ranges, piece.range, piece.part * MERGE_PIECE, windows) : 0;
    for (int run = threadIdx.x % 32; is_there && run < view.count; run += 32) row[run] = windows.start[run];
    if (threadIdx.x % 32 != 0) return;
    row[view.count] = is_there ? __ldg(ranges.offsets + piece.range) + before : 0;
    row[view.count + 1] = is_there ? piece.range + 1 : 0;
}

/// Long ranges over several runs: a block each, tile by tile. With `PARTS`, those whose answers are shared
/// out among several blocks; else all others.
template <bool PARTS, int PER_THREAD, class Key, class Value>
__global__ void __launch_bounds__(RANGE_THREADS, range_blocks(sizeof(Key) + sizeof(Value)))
merge_long_kernel(const __grid_constant__ View<Key, Value> view,
                  const __grid_constant__ Ranges<Key, Value> ranges) {
    __shared__ MergeTile<false, RANGE_THREADS, PER_THREAD, Key, Value> tile;
    __shared__ uint64_t start[MAX_RUNS], end[MAX_RUNS];
    __shared__ Key bound;  // of what is merged next
    int count = static_cast<int>(view.count);
    uint64_t place;
    if constexpr (PARTS) {
        const uint64_t* row = ranges.parts + blockIdx.x * static_cast<uint64_t>(count + 2);
        if (*ranges.has_parts == 0 || row[count + 1] == 0) return;
        place = row[count];
        const uint64_t* next = row + count + 2;
        bool is_last = blockIdx.x + 1 == gridDim.x || next[count + 1] != row[count + 1];
        if (threadIdx.x < count) {
            start[threadIdx.x] = row[threadIdx.x];
            end[threadIdx.x] = is_last ? ranges.window(row[count + 1] - 1, threadIdx.x).y : next[threadIdx.x];
        }
    } else {
        if (__ldg(ranges.offsets + ranges.total) > ranges.room) return;
        place = __ldg(ranges.offsets + blockIdx.x);
        uint64_t pairs = __ldg(ranges.offsets + blockIdx.x + 1) - place;
        if (pairs > MERGE_PIECE && threadIdx.x == 0) *ranges.has_parts = 1;
        if (pairs == 0 || pairs > MERGE_PIECE) return;
        if (threadIdx.x < count) {
            ulonglong2 window = ranges.window(blockIdx.x, threadIdx.x);
            start[threadIdx.x] = window.x;
            end[threadIdx.x] = window.y;
        }
    }
    __syncthreads();

    uint32_t most = tile.MOST - (count + 1) / 2 * PER_THREAD;  // as `merge_pairs` wants it
    while (true) {
        // Of every run as many entries as it has its share in the rest; what lies behind the least of the last
        // ones is left for the next tile.
        uint64_t left = add_up(end, count) - add_up(start, count);
        if (left == 0) return;
        bool all = left <= most;
        if (threadIdx.x == 0) bound = HIGHEST<Key>;
        __syncthreads();
        uint32_t taken = 0;
        if (threadIdx.x < count) {
            uint64_t own = end[threadIdx.x] - start[threadIdx.x];
            float share = __fdividef(0.999f * (most - count), left);
            taken = static_cast<uint32_t>(all ? own : min(own, static_cast<uint64_t>(own * share) + 1));
            if (taken < own) lower_to(bound, view.runs[threadIdx.x].keys[start[threadIdx.x] + taken - 1]);
        }
        __syncthreads();
        if (threadIdx.x < count) {
            const Run<Key, Value>& run = view.runs[threadIdx.x];
            tile.parts[threadIdx.x].source = {run.keys, run.values, run.marks, nullptr, nullptr, nullptr, Kind::Run};
            tile.parts[threadIdx.x].ahead = start[threadIdx.x];
            tile.offset[threadIdx.x + 1] = taken;
        }
        __syncthreads();
        load(tile, count);
        Key last = bound;
        if (threadIdx.x < count) {
            uint32_t from = tile.offset[threadIdx.x], len = tile.offset[threadIdx.x + 1] - from;
            start[threadIdx.x] += up_to(tile.keys + from, len, last);
        }
        __syncthreads();  // before keys move
        Stretch<PER_THREAD, Key> mine = merge(tile, count);
#pragma unroll
        for (int i = 0; i < PER_THREAD; i++) {
            if (mine.keys[i] > last) mine.lives &= ~(1u << i);
        }
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

/// How many numbers of pieces there are of answers that have several.
constexpr uint64_t range_parts(uint64_t room) { return room / (MERGE_PIECE / 2) + 1; }

}  // namespace gpulsm

using namespace gpulsm;

/// Words that `gpulsm_range` wants for each run, and two more, to share out answers of so many pairs.
extern "C" uint64_t gpulsm_range_parts(uint64_t room) { return range_parts(room); }

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
            unsigned blocks = static_cast<unsigned>(to.len), parts = static_cast<unsigned>(range_parts(to.room));
            merge_long_kernel<false, ITEMS_OF_RANGE><<<blocks, RANGE_THREADS, 0, stream>>>(runs, to);
            cut_ranges_kernel<<<blocks_for(parts * 32ull, THREADS), THREADS, 0, stream>>>(runs, to, parts);
            merge_long_kernel<true, ITEMS_OF_RANGE><<<parts, RANGE_THREADS, 0, stream>>>(runs, to);
        } else {
            auto merge = runs.count <= 8 ? merge_short_kernel<8, Key, Value> : merge_short_kernel<MAX_RUNS, Key, Value>;
            merge<<<blocks_for(to.len, THREADS), THREADS, 0, stream>>>(runs, to);
        }
        return cudaGetLastError();
    });
}
