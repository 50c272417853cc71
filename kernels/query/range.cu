// Writes the pairs of ranges, each straight to its final place: sizes and windows are known from `count.cu`. Values are
// those of the newest runs that hold the keys; where values combine, `combine.cu` replaces them.
#include "query/range_long.cuh"
#include "query/range_short.cuh"

namespace gpulsm {

/// Finds the piece with this number, of pieces of `size` pairs; returns whether it exists. The first piece of range
/// i has number i. The others follow; their numbering leaves gaps.
template <class Key, class Value>
__device__ bool find_copy_piece(const RangeOutput<Key, Value>& ranges, uint64_t number, uint64_t size, Piece& piece) {
    if (!ranges.has_room()) return false;
    uint64_t range = number, first = number;
    if (number >= ranges.len) {
        number -= ranges.len;
        range = range_of(ranges, number, size, first);
        number++;
    }
    piece = piece_of(ranges, range, number - first, size);
    return piece.begin < piece.end;
}

/// Copies ranges over one run, whose entries are all live, by `LANES` neighbours per piece.
template <int LANES, class Key, class Value>
__global__ void __launch_bounds__(THREADS)
copy_kernel(const __grid_constant__ RunView<Key, Value> run, const __grid_constant__ RangeOutput<Key, Value> ranges) {
    uint64_t thread = blockIdx.x * static_cast<uint64_t>(THREADS) + threadIdx.x;
    Piece piece;
    if (!find_copy_piece(ranges, thread / LANES, COPY_PIECE, piece)) return;
    uint64_t start = ranges.window(piece.range, 0).x + piece.index * COPY_PIECE;
    uint32_t len = static_cast<uint32_t>(piece.end - piece.begin);
    const Key* keys = run.keys + start;
    // Copy several pairs at a time, so that their loads overlap.
    constexpr int MANY = 4;
    uint32_t i = thread % LANES;
    for (; i + (MANY - 1) * LANES < len; i += MANY * LANES) {
        Key some[MANY];
        Value values[MANY];
#pragma unroll
        for (int j = 0; j < MANY; j++) {
            some[j] = read_key(keys + i + j * LANES);
            if (ranges.values != nullptr) values[j] = value_at(run.values, start + i + j * LANES);
        }
#pragma unroll
        for (int j = 0; j < MANY; j++) {
            ranges.keys[piece.begin + i + j * LANES] = some[j];
            if (sizeof(Value) > 1 && ranges.values != nullptr) ranges.values[piece.begin + i + j * LANES] = values[j];
        }
    }
    for (; i < len; i += LANES) ranges.write(piece.begin + i, read_key(keys + i), run.values, start + i);
}

/// Returns whether ranges are long on average, given room for the pairs of all of them.
inline bool are_long(uint64_t room, uint64_t all) { return room / all >= LONG_RANGE; }

}  // namespace gpulsm

using namespace gpulsm;

/// Returns how many words of memory the blocks that answer ranges share, and how many bytes of them must be zeroed:
/// for `total` ranges, of the call's `all`, over `runs` runs. Without the words for long ranges (`for_long`) no
/// answer is divided among blocks, and long ones are slow.
extern "C" uint64_t gpulsm_range_words(int key_width, int value_width, uint64_t runs, uint64_t total, uint64_t all,
                                       uint64_t room, bool for_long, uint64_t* zeros) {
    using Any = RangeOutput<uint64_t, char>;
    *zeros = runs <= 1 ? 0 : Any::FLAG_WORDS * sizeof(uint64_t);
    if (runs <= 1 || !for_long || !are_long(room, all)) return *zeros / sizeof(uint64_t);
    *zeros += offsetof(DeadStretches<WideKey>, first);
    int width = key_width + (value_width > 0 ? value_width : sizeof(Nothing));
    return Any::FLAG_WORDS + Any::DEAD_WORDS + AnswerPieces(width, total, room).count * (runs + 2);
}

/// Writes the pairs of every range, if there is room for all of them.
GPULSM_EXPORT gpulsm_range(int key_width, int value_width, const View<char, char>* view,
                           const RangeOutput<char, char>* ranges, cudaStream_t stream) {
    return with_pair(key_width, value_width, [&](auto key, auto value) -> int {
        using Key = typename decltype(key)::type;
        using Value = typename decltype(value)::type;
        auto runs = typed<Key, Value>(*view);
        const auto& to = reinterpret_cast<const RangeOutput<Key, Value>&>(*ranges);
        if (runs.count <= 1) {
            bool by_warps = are_long(to.room, to.all);
            uint64_t pieces = to.len + to.room / COPY_PIECE + 1;
            auto copy = by_warps ? copy_kernel<32, Key, Value> : copy_kernel<COPY_LANES, Key, Value>;
            copy<<<blocks_for(pieces * (by_warps ? 32 : COPY_LANES), THREADS), THREADS, 0, stream>>>(runs.runs[0], to);
        } else if (to.for_long && are_long(to.room, to.all)) {
            merge_long(runs, to, stream);
        } else if (runs.count <= 8) {
            merge_short<8>(runs, to, stream);
        } else {
            merge_short<MAX_RUNS>(runs, to, stream);
        }
        return cudaGetLastError();
    });
}
