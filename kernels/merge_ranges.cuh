// Long ranges over several runs, merged in shared memory by a block each. Very long answers are shared out
// among blocks: pieces of them are cut by ranks, so that each knows its place.
#pragma once

#include "cut.cuh"
#include "dispatch.cuh"
#include "ranges.cuh"
#include "tile.cuh"

namespace gpulsm {

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

/// How many keys come before a place in every run, and before another one. For a whole warp.
struct Ranks {
    int64_t less, up_to;

    template <class Key, class Value>
    __device__ Ranks(const View<Key, Value>& view, const uint64_t* places, const uint64_t* past) : less(0), up_to(0) {
        for (int run = threadIdx.x % 32; run < view.count; run += 32) {
            less += sum_before(view.runs[run].marks, places[run]);
            up_to += sum_before(view.runs[run].marks, past[run]);
        }
        less = add_up_lanes(less, 32);
        up_to = add_up_lanes(up_to, 32);
    }
};

/// Goes through the pieces of a range's answer, one after the other: what was found of one narrows the search
/// for the next. In shared memory, for a whole warp.
template <class Key, class Value>
struct RangeCuts {
    Windows<Key> windows;  // `start` is the last cut.

    /// Begins with a range. Ranks count from the least key of all: returns that of the range's first key.
    __device__ int64_t begin(const View<Key, Value>& view, const Ranges<Key, Value>& ranges, uint64_t range) {
        for (int run = threadIdx.x % 32; run < view.count; run += 32) {
            windows.keys[run] = view.runs[run].keys;
            windows.start[run] = ranges.window(range, run).x;
        }
        __syncwarp();
        return Ranks(view, windows.start, windows.start).less;
    }

    /// Finds where about `goal` keys come before, in every run: at most so many, and at most `SLACK` fewer, or
    /// as near as there is a key. So many come before the last cut and the range's end. Returns how many do.
    __device__ int64_t cut(const View<Key, Value>& view, const Ranges<Key, Value>& ranges, uint64_t range,
                           int64_t goal, int64_t below, int64_t above) {
        int count = static_cast<int>(view.count), lane = threadIdx.x % 32;
        for (int run = lane; run < count; run += 32) windows.end[run] = ranges.window(range, run).y;
        __syncwarp();
        for (uint32_t round = 0; goal - below > SLACK; round++) {
            uint64_t entries = add_up(windows.end, count) - add_up(windows.start, count);
            if (entries == 0) break;
            bool halve = round > 3 && round % 2 == 0;
            float share = halve ? 0.5f : __fdividef(goal - below - SLACK / 2, above - below);
            Key pivot = choose_pivot<32>(windows, count, share, entries);
            place_pivot<32>(windows, count, share, pivot);
            Ranks pivots(view, windows.place, windows.past);
            // The pivot is behind the goal, before it, or the last key before it.
            bool is_behind = pivots.less > goal, is_last = !is_behind && pivots.up_to > goal;
            for (int run = lane; run < count; run += 32) {
                if (is_behind) windows.end[run] = windows.place[run];
                else windows.start[run] = is_last ? windows.place[run] : windows.past[run];
            }
            __syncwarp();
            (is_behind ? above : below) = is_behind || is_last ? pivots.less : pivots.up_to;
            if (is_last) break;
        }
        return below;
    }
};

/// How long answers over several runs are shared out among blocks.
struct Parts {
    uint32_t size;   // pairs of a piece
    uint32_t count;  // numbers of pieces
    bool one;        // The only answer is shared out, however short it is.

    Parts(int width, uint64_t len, uint64_t room)
        : size(THREADS * range_items(width) - PART_SLACK),
          count(static_cast<uint32_t>(room / (len == 1 ? size : size / 2) + 1)),
          one(len == 1) {}

    __device__ bool shares_out(uint64_t pairs) const { return one || pairs > size; }
};

/// Finds the piece of a number, of answers that are shared out. Numbers by half a piece leave room for all of
/// an answer that has several, wherever it begins; of only one, numbers by whole pieces do.
template <class Key, class Value>
__device__ bool find_part(const Ranges<Key, Value>& ranges, uint64_t number, const Parts& parts, Piece& piece) {
    uint64_t first, range = range_of(ranges, number, parts.one ? parts.size : parts.size / 2, first);
    piece = piece_of(ranges, range, number - first, parts.size);
    uint64_t pairs = __ldg(ranges.offsets + range + 1) - __ldg(ranges.offsets + range);
    return parts.shares_out(pairs) && piece.begin < piece.end && ranges.is_room();
}

/// Where each piece of an answer that is shared out begins: in every run, in the answers, and of which range it
/// is, counted from 1; 0 if there is no such piece. By a warp for each few that are next to each other.
template <class Key, class Value>
__global__ void __launch_bounds__(THREADS, 4)
cut_ranges_kernel(const __grid_constant__ View<Key, Value> view, const __grid_constant__ Ranges<Key, Value> ranges,
                  Parts parts) {
    __shared__ RangeCuts<Key, Value> cuts_of_warps[WARPS];
    if (!parts.one && ranges.flags[ARE_PARTS] == 0) return;
    if (blockIdx.x == 0 && threadIdx.x == 0) ranges.flags[ARE_WIDE] = 0;
    RangeCuts<Key, Value>& cuts = cuts_of_warps[threadIdx.x / 32];
    uint32_t warps = gridDim.x * WARPS, warp = blockIdx.x * WARPS + threadIdx.x / 32;
    uint32_t each = (parts.count + warps - 1) / warps, number = min(warp * each, parts.count);
    uint64_t cut_range = ~0ull;
    int64_t first = 0, before = 0;  // ranks of the range's first key, and of the last cut
    for (uint32_t end = min(number + each, parts.count); number < end; number++) {
        uint64_t* row = ranges.part(number, view.count);
        Piece piece;
        bool is_there = find_part(ranges, number, parts, piece);
        uint64_t offset = 0;
        if (is_there) {
            offset = __ldg(ranges.offsets + piece.range);
            if (piece.range != cut_range) before = first = cuts.begin(view, ranges, piece.range);
            cut_range = piece.range;
            int64_t last = first + static_cast<int64_t>(__ldg(ranges.offsets + piece.range + 1) - offset);
            before = cuts.cut(view, ranges, piece.range, first + piece.part * parts.size, before, last);
        }
        // Of those that are not there, too: blocks read their own row and the next at once.
        for (int run = threadIdx.x % 32; run < view.count; run += 32) row[run] = is_there ? cuts.windows.start[run] : 0;
        if (threadIdx.x % 32 == 0) {
            row[view.count] = is_there ? offset + (before - first) : 0;
            row[view.count + 1] = is_there ? piece.range + 1 : 0;
        }
        __syncwarp();
    }
}

/// What a block merges: a part of every run, tile by tile.
template <int BLOCK, int PER_THREAD, class Key, class Value>
struct Merging {
    MergeTile<false, BLOCK, PER_THREAD, Key, Value> tile;
    uint64_t start[MAX_RUNS], end[MAX_RUNS];
    uint64_t place, last;  // of what is written next, and where the answer ends
    Key bound;             // of what is merged next
    Key dead_from;         // From here on, at the latest, none was live.
    bool skips;

    /// Begins with a piece of an answer that is shared out; says whether there is one of this number. For the
    /// whole block.
    __device__ bool begin(const View<Key, Value>& view, const Ranges<Key, Value>& ranges, uint32_t number,
                          uint32_t parts) {
        int count = static_cast<int>(view.count), own = threadIdx.x;
        const uint64_t *row = ranges.part(number, view.count), *next = row + count + 2;
        // All that there may be to read is asked for at once.
        uint64_t range = row[count + 1], next_range = number + 1 < parts ? next[count + 1] : 0;
        uint64_t from = own <= count ? row[own] : 0, to = own <= count && number + 1 < parts ? next[own] : 0;
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

    /// Begins with a range whose answer is not shared out; says whether there is any pair in it. For the whole block.
    __device__ bool begin(const View<Key, Value>& view, const Ranges<Key, Value>& ranges, uint64_t range) {
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
    __device__ bool is_mostly_dead(int count) const { return left(count) > 4 * (last - place) + 4 * most(count); }

    /// Writes all pairs, tile by tile. For the whole block.
    __device__ void merge_all(const View<Key, Value>& view, const Ranges<Key, Value>& ranges) {
        while (step<false>(view, ranges)) {}
    }

    /// The same without what is dead behind the last pair, or lies in long stretches.
    __device__ void merge_between_dead(const View<Key, Value>& view, const Ranges<Key, Value>& ranges) {
        int dead_tiles = 0;  // in a row
        for (uint64_t before = place; step<false>(view, ranges) && place < last; before = place) {
            dead_tiles = place == before ? dead_tiles + 1 : 0;
            if (dead_tiles > 0 && skip_dead(view, ranges, dead_tiles)) dead_tiles = 0;
        }
    }

    /// Continues behind the dead stretch that the last `dead_tiles` tiles belong to, if its end is known, or if it is
    /// time to search for it; returns whether it does. For the whole block.
    __device__ bool skip_dead(const View<Key, Value>& view, const Ranges<Key, Value>& ranges, int dead_tiles) {
        if (threadIdx.x < 32) {
            RunPlaces places(view.count);
            for (int run = 0; run < view.count; run++) places.set(run, start[run], end[run]);
            Key key = next_key(view, places);
            Key from = dead_tiles == 1 ? key : dead_from;
            bool finds = ranges.dead().skip(view.count, key, places);
            if (!finds && dead_tiles >= DEAD_TILES) {
                Key live = next_live(view, places);
                ranges.dead().add(view.count, from, live, places);
                finds = true;
            }
            __syncwarp();
            for (int run = 0; finds && run < view.count; run++) {
                uint64_t to = places.place(run);
                if (threadIdx.x == 0) start[run] = to;
            }
            if (threadIdx.x == 0) dead_from = from, skips = finds;
        }
        __syncthreads();
        return skips;
    }

    /// Entries that are left, and how many fit into a tile of so many runs, as `merge_pairs` wants it.
    __device__ uint64_t left(int count) const { return add_up(end, count) - add_up(start, count); }
    __host__ __device__ static uint32_t most(int count) { return BLOCK * PER_THREAD - (count + 1) / 2 * PER_THREAD; }

    /// Writes the live pairs of as many entries as fit into a tile, and says whether any are left; none are if
    /// all are known to fit. For the whole block, which has seen to it that the parts are there, and the place.
    template <bool FITS>
    __device__ __forceinline__ bool step(const View<Key, Value>& view, const Ranges<Key, Value>& ranges) {
        int count = static_cast<int>(view.count), own = threadIdx.x;
        uint64_t left = FITS ? 0 : this->left(count);
        bool all = FITS || left <= most(count);
        if (!FITS) {
            if (own == 0) bound = HIGHEST<Key>;
            __syncthreads();
        }
        if (own < count) {
            // If not all fit: of every run as many entries as it has its share in the rest; what lies behind
            // the least of the last ones is left for the next tile.
            uint64_t len = end[own] - start[own];
            float share = __fdividef(0.999f * (most(count) - count), left);
            uint32_t taken = static_cast<uint32_t>(all ? len : min(len, static_cast<uint64_t>(len * share) + 1));
            const Run<Key, Value>& run = view.runs[own];
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
            __syncthreads();  // before keys move
        }
        Stretch<PER_THREAD, Key> mine = merge(tile, count);
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
            if (sizeof(Value) > 1 && ranges.values != nullptr) ranges.values[to] = tile.values[tile.items[i].number()];
        }
        if (all) return false;
        __syncthreads();
        if (own == 0) place += kept;
        __syncthreads();
        return true;
    }
};

/// Long ranges over several runs: a block each, but for those whose answers are shared out.
template <int PER_THREAD, class Key, class Value>
__global__ void __launch_bounds__(RANGE_THREADS, range_blocks(sizeof(Key) + sizeof(Value)))
merge_long_kernel(const __grid_constant__ View<Key, Value> view,
                  const __grid_constant__ Ranges<Key, Value> ranges, Parts parts) {
    __shared__ Merging<RANGE_THREADS, PER_THREAD, Key, Value> merging;
    if (!ranges.is_room()) return;
    uint64_t pairs = __ldg(ranges.offsets + blockIdx.x + 1) - __ldg(ranges.offsets + blockIdx.x);
    if (pairs > parts.size && threadIdx.x == 0) ranges.flags[ARE_PARTS] = 1;
    if (pairs == 0 || pairs > parts.size) return;
    merging.begin(view, ranges, static_cast<uint64_t>(blockIdx.x));
    if (!merging.is_mostly_dead(static_cast<int>(view.count))) merging.merge_all(view, ranges);
    else if (threadIdx.x == 0) ranges.flags[ARE_DEAD] = 1;
}

/// Pieces of answers that are shared out, a block each, if they fit into a tile.
template <int PER_THREAD, class Key, class Value>
__global__ void __launch_bounds__(THREADS, part_blocks(sizeof(Key) + sizeof(Value)))
merge_parts_kernel(const __grid_constant__ View<Key, Value> view,
                   const __grid_constant__ Ranges<Key, Value> ranges, Parts parts) {
    __shared__ Merging<THREADS, PER_THREAD, Key, Value> merging;
    if (!parts.one && ranges.flags[ARE_PARTS] == 0) return;
    if (!merging.begin(view, ranges, blockIdx.x, parts.count)) return;
    int count = static_cast<int>(view.count);
    if (merging.left(count) <= merging.most(count)) merging.template step<true>(view, ranges);
    else if (threadIdx.x == 0) ranges.flags[ARE_WIDE] = 1;
}

/// The pieces of more entries than `most`, if `flag` says that there may be any: by as many blocks as can run at
/// once, for there are hardly ever many.
template <int PER_THREAD, class Key, class Value>
__global__ void __launch_bounds__(RANGE_THREADS, range_blocks(sizeof(Key) + sizeof(Value)) - 1)
merge_few_parts_kernel(const __grid_constant__ View<Key, Value> view,
                        const __grid_constant__ Ranges<Key, Value> ranges, Parts parts, uint32_t flag, uint32_t most) {
    __shared__ Merging<RANGE_THREADS, PER_THREAD, Key, Value> merging;
    if (ranges.flags[flag] == 0) return;
    for (uint32_t number = blockIdx.x; number < parts.count; number += gridDim.x) {
        if (!merging.begin(view, ranges, number, parts.count)) continue;
        bool is_dead = merging.is_mostly_dead(static_cast<int>(view.count));
        if (is_dead && threadIdx.x == 0) ranges.flags[ARE_DEAD] = 1;
        if (!is_dead && merging.left(static_cast<int>(view.count)) > most) merging.merge_all(view, ranges);
        __syncthreads();
    }
}

/// Ranges and pieces whose entries are mostly dead, which all others leave out.
template <int PER_THREAD, class Key, class Value>
__global__ void __launch_bounds__(RANGE_THREADS, DEAD_BLOCKS)
merge_dead_kernel(const __grid_constant__ View<Key, Value> view, const __grid_constant__ Ranges<Key, Value> ranges,
                  Parts parts) {
    __shared__ Merging<RANGE_THREADS, PER_THREAD, Key, Value> merging;
    if (ranges.flags[ARE_DEAD] == 0) return;
    int count = static_cast<int>(view.count);
    auto merge = [&](bool is_there) {
        if (is_there && merging.is_mostly_dead(count)) merging.merge_between_dead(view, ranges);
        __syncthreads();
    };
    bool are_parts = parts.one || ranges.flags[ARE_PARTS] != 0;
    for (uint32_t number = blockIdx.x; are_parts && number < parts.count; number += gridDim.x) {
        merge(merging.begin(view, ranges, number, parts.count));
    }
    for (uint64_t range = blockIdx.x; !parts.one && range < ranges.len; range += gridDim.x) {
        uint64_t pairs = __ldg(ranges.offsets + range + 1) - __ldg(ranges.offsets + range);
        if (pairs > 0 && pairs <= parts.size) merge(merging.begin(view, ranges, range));
    }
}

/// Writes the pairs of long ranges over several runs.
template <class Key, class Value>
void merge_long(const View<Key, Value>& view, const Ranges<Key, Value>& ranges, cudaStream_t stream) {
    constexpr int WIDTH = sizeof(Key) + sizeof(Value), PER_THREAD = range_items(WIDTH);
    Parts parts(WIDTH, ranges.total, ranges.room);
    if (!parts.one) merge_long_kernel<PER_THREAD><<<ranges.len, RANGE_THREADS, 0, stream>>>(view, ranges, parts);
    cut_ranges_kernel<<<blocks_at_once(parts.count * 32ull, 4), THREADS, 0, stream>>>(view, ranges, parts);
    // Where most answers are shared out, each piece gets a block. Else there are hardly any pieces.
    bool many = parts.one || ranges.room / ranges.all >= parts.size;
    if (many) merge_parts_kernel<PER_THREAD><<<parts.count, THREADS, 0, stream>>>(view, ranges, parts);
    uint32_t flag = many ? ARE_WIDE : ARE_PARTS;
    uint32_t most = many ? Merging<THREADS, PER_THREAD, Key, Value>::most(static_cast<int>(view.count)) : 0;
    unsigned blocks = blocks_at_once(static_cast<uint64_t>(parts.count) * THREADS, range_blocks(WIDTH));
    merge_few_parts_kernel<PER_THREAD><<<blocks, RANGE_THREADS, 0, stream>>>(view, ranges, parts, flag, most);
    blocks = blocks_at_once((ranges.len + parts.count) * THREADS, DEAD_BLOCKS);
    merge_dead_kernel<PER_THREAD><<<blocks, RANGE_THREADS, 0, stream>>>(view, ranges, parts);
}

}  // namespace gpulsm
