// Divides long answers over several runs among blocks. Pieces are cut by rank, so that each knows where its pairs
// go.
#pragma once

#include "dispatch.cuh"
#include "merge/cut.cuh"
#include "query/range_output.cuh"

namespace gpulsm {

/// The ranks of two positions in every run: how many keys precede them. For whole warps.
struct Ranks {
    int64_t less, up_to;

    template <class Key, class Value>
    __device__ Ranks(const View<Key, Value>& view, const uint64_t* places, const uint64_t* past) : less(0), up_to(0) {
        for (int run = threadIdx.x % 32; run < view.count; run += 32) {
            less += sum_before(view.runs[run].marks, places[run]);
            up_to += sum_before(view.runs[run].marks, past[run]);
        }
        less = sum_lanes(less, 32);
        up_to = sum_lanes(up_to, 32);
    }
};

/// Cuts the answer of a range into pieces, one after the other: each cut narrows the search for the next. In shared
/// memory, for one whole warp.
template <class Key, class Value>
struct RangeCuts {
    Windows<Key> windows;  // `start` is the last cut.

    /// Begins a range. Ranks count from the least key of all; returns the rank of the range's first key.
    template <class Ranges>
    __device__ int64_t begin(const View<Key, Value>& view, const Ranges& ranges, uint64_t range) {
        for (int run = threadIdx.x % 32; run < view.count; run += 32) {
            windows.keys[run] = view.runs[run].keys;
            windows.start[run] = ranges.window(range, run).x;
        }
        __syncwarp();
        return Ranks(view, windows.start, windows.start).less;
    }

    /// Advances to where about `goal` keys precede, in every run: at most `goal`, and at least `goal - SLACK` or as
    /// near as there is a key. `below` keys precede the last cut, and `above` the end of the range. Returns how
    /// many precede the new cut.
    template <class Ranges>
    __device__ int64_t cut(const View<Key, Value>& view, const Ranges& ranges, uint64_t range, int64_t goal,
                           int64_t below, int64_t above) {
        int count = static_cast<int>(view.count), lane = threadIdx.x % 32;
        for (int run = lane; run < count; run += 32) windows.end[run] = ranges.window(range, run).y;
        __syncwarp();
        for (uint32_t round = 0; goal - below > SLACK; round++) {
            uint64_t entries = sum_of(windows.end, count) - sum_of(windows.start, count);
            if (entries == 0) break;
            bool halve = round > 3 && round % 2 == 0;
            float share = halve ? 0.5f : __fdividef(goal - below - SLACK / 2, above - below);
            Key pivot = choose_pivot<32>(windows, count, share, entries);
            place_pivot<32>(windows, count, share, pivot);
            Ranks pivots(view, windows.place, windows.past);
            // The pivot is past the goal, before it, or the last key before it.
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

/// How long answers over several runs are divided among blocks.
struct AnswerPieces {
    uint32_t size;   // pairs per piece
    uint32_t count;  // numbers of pieces, some of which are unused
    bool is_single;  // There is one range, whose answer is always divided.

    AnswerPieces(int width, uint64_t len, uint64_t room)
        : size(THREADS * range_items(width) - PIECE_SLACK),
          count(static_cast<uint32_t>(room / (len == 1 ? size : size / 2) + 1)),
          is_single(len == 1) {}

    __device__ bool divides(uint64_t pairs) const { return is_single || pairs > size; }
};

/// Finds the piece with this number, of answers that are divided; returns whether it exists. Numbering by half
/// pieces leaves room for all pieces of every answer, wherever it begins; a single answer is numbered by whole
/// pieces.
template <class Key, class Value>
__device__ bool find_cut_piece(const RangeOutput<Key, Value>& ranges, uint64_t number, const AnswerPieces& pieces,
                               Piece& piece) {
    uint64_t first, range = range_of(ranges, number, pieces.is_single ? pieces.size : pieces.size / 2, first);
    piece = piece_of(ranges, range, number - first, pieces.size);
    uint64_t pairs = __ldg(ranges.offsets + range + 1) - __ldg(ranges.offsets + range);
    return pieces.divides(pairs) && piece.begin < piece.end && ranges.has_room();
}

/// Finds where each piece of a divided answer begins: in every run and in the output, and its range, counted from
/// 1; 0 if there is no such piece. Each warp cuts a few consecutive pieces.
template <class Key, class Value>
__global__ void __launch_bounds__(THREADS, 4)
cut_pieces_kernel(const __grid_constant__ View<Key, Value> view, const __grid_constant__ RangeOutput<Key, Value> ranges,
                  AnswerPieces pieces) {
    __shared__ RangeCuts<Key, Value> cuts_of_warps[WARPS];
    if (!pieces.is_single && ranges.flags[HAS_PIECES] == 0) return;
    if (blockIdx.x == 0 && threadIdx.x == 0) ranges.flags[HAS_OVERSIZED] = 0;
    RangeCuts<Key, Value>& cuts = cuts_of_warps[threadIdx.x / 32];
    uint32_t warps = gridDim.x * WARPS, warp = blockIdx.x * WARPS + threadIdx.x / 32;
    uint32_t each = (pieces.count + warps - 1) / warps, number = min(warp * each, pieces.count);
    uint64_t cut_range = ~0ull;
    int64_t first = 0, before = 0;  // ranks of the range's first key and of the last cut
    for (uint32_t end = min(number + each, pieces.count); number < end; number++) {
        uint64_t* row = ranges.piece_row(number, view.count);
        Piece piece;
        bool is_there = find_cut_piece(ranges, number, pieces, piece);
        uint64_t offset = 0;
        if (is_there) {
            offset = __ldg(ranges.offsets + piece.range);
            if (piece.range != cut_range) before = first = cuts.begin(view, ranges, piece.range);
            cut_range = piece.range;
            int64_t last = first + static_cast<int64_t>(__ldg(ranges.offsets + piece.range + 1) - offset);
            before = cuts.cut(view, ranges, piece.range, first + piece.index * pieces.size, before, last);
        }
        // Rows of unused numbers are written too: a block reads its own row and the next at once.
        for (int run = threadIdx.x % 32; run < view.count; run += 32) row[run] = is_there ? cuts.windows.start[run] : 0;
        if (threadIdx.x % 32 == 0) {
            row[view.count] = is_there ? offset + (before - first) : 0;
            row[view.count + 1] = is_there ? piece.range + 1 : 0;
        }
        __syncwarp();
    }
}

}  // namespace gpulsm
