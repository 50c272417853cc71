// Writing the pairs of ranges, each straight to its place: their sizes are known beforehand.
#include "dispatch.cuh"
#include "tuning.cuh"
#include "../include/gpulsm/queries.cuh"

namespace gpulsm {

/// Ranges and where their answers go: answer i to `offsets[i]` and on.
template <class Key, class Value>
struct Ranges {
    const Key* lo;
    uint64_t len;
    const uint64_t* offsets;
    uint64_t room;  // for so many pairs; if they are more, nothing is written
    Key* keys;
    Value* values;  // null where they are not wanted

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

/// Pieces are numbered so that range i begins with number i + offsets[i] / size: that leaves room
/// for every piece, and a few numbers without one, and needs no counting.
template <class Key, class Value>
__device__ bool find_piece(const Ranges<Key, Value>& ranges, uint64_t number, uint64_t size, Piece& piece) {
    uint64_t total = __ldg(ranges.offsets + ranges.len);
    if (total > ranges.room || number >= ranges.len + total / size) return false;
    uint64_t first = 0, len = ranges.len;  // The last range whose number is not greater.
    while (len > 1) {
        uint64_t half = len / 2, middle = first + half;
        bool up = middle + __ldg(ranges.offsets + middle) / size <= number;
        first = up ? middle : first;
        len = up ? len - half : half;
    }
    uint64_t offset = __ldg(ranges.offsets + first);
    piece.range = first;
    piece.part = number - (first + offset / size);
    piece.begin = offset + piece.part * size;
    piece.end = min(__ldg(ranges.offsets + first + 1), piece.begin + size);
    return piece.begin < piece.end;
}

/// Over one run, whose entries are all new: plain copies, by a few lanes each.
template <class Key, class Value>
__global__ void __launch_bounds__(THREADS)
copy_kernel(const __grid_constant__ Run<Key, Value> run, const __grid_constant__ Ranges<Key, Value> ranges) {
    uint64_t thread = blockIdx.x * static_cast<uint64_t>(THREADS) + threadIdx.x;
    Piece piece;
    if (!find_piece(ranges, thread / COPY_LANES, COPY_PIECE, piece)) return;
    uint64_t start = lower_bound(run, ranges.lo[piece.range]) + piece.part * COPY_PIECE;
    uint64_t len = piece.end - piece.begin;
    for (uint64_t i = thread % COPY_LANES; i < len; i += COPY_LANES) {
        ranges.write(piece.begin + i, __ldg(run.keys + start + i), run.values, start + i);
    }
}

/// Over several runs: a merge of the windows that the range has in each, by one thread.
template <class Key, class Value>
__global__ void __launch_bounds__(THREADS)
merge_ranges_kernel(const __grid_constant__ View<Key, Value> view,
                    const __grid_constant__ Ranges<Key, Value> ranges) {
    uint64_t number = blockIdx.x * static_cast<uint64_t>(THREADS) + threadIdx.x;
    Piece piece;
    if (!find_piece(ranges, number, MERGE_PIECE, piece)) return;
    Key from = ranges.lo[piece.range];
    if (piece.part > 0) {
        Value unused;
        select(view, rank(view, from) + piece.part * MERGE_PIECE, from, unused);
    }
    // The next entry of every run that has one.
    uint64_t position[MAX_RUNS];
    Key next[MAX_RUNS];
    uint64_t some = 0;  // a bit for each run that has
    for (int run = 0; run < view.count; run++) {
        position[run] = lower_bound(view.runs[run], from);
        if (position[run] == length(view.runs[run])) continue;
        next[run] = __ldg(view.runs[run].keys + position[run]);
        some |= 1ull << run;
    }
    for (uint64_t place = piece.begin; place < piece.end;) {
        // Of equal keys the newest run's entry comes first, and decides.
        int newest = -1;
        Key key = 0;
        for (int run = 0; run < view.count; run++) {
            if ((some >> run & 1) && (newest < 0 || next[run] < key)) {
                newest = run;
                key = next[run];
            }
        }
        const Run<Key, Value>& decides = view.runs[newest];
        if (is_live(decides.marks, position[newest])) {
            ranges.write(place++, key, decides.values, position[newest]);
        }
        for (int run = newest; run < view.count; run++) {
            if (!(some >> run & 1) || next[run] != key) continue;
            if (++position[run] == length(view.runs[run])) {
                some &= ~(1ull << run);
            } else {
                next[run] = __ldg(view.runs[run].keys + position[run]);
            }
        }
    }
}

}  // namespace gpulsm

using namespace gpulsm;

/// Writes the pairs of every range, if there is room for all of them. `offsets` holds one more than
/// there are ranges.
GPULSM_EXPORT gpulsm_range(int key_width, int value_width, const View<char, char>* view,
                           const Ranges<char, char>* ranges, cudaStream_t stream) {
    return with_pair(key_width, value_width, [&](auto key, auto value) -> int {
        using Key = typename decltype(key)::type;
        using Value = typename decltype(value)::type;
        auto runs = typed<Key, Value>(*view);
        const auto& to = reinterpret_cast<const Ranges<Key, Value>&>(*ranges);
        if (runs.count == 1) {
            uint64_t pieces = to.len + to.room / COPY_PIECE;
            copy_kernel<<<blocks_for(pieces * COPY_LANES, THREADS), THREADS, 0, stream>>>(runs.runs[0], to);
        } else {
            uint64_t pieces = to.len + to.room / MERGE_PIECE;
            merge_ranges_kernel<<<blocks_for(pieces, THREADS), THREADS, 0, stream>>>(runs, to);
        }
        return cudaGetLastError();
    });
}
