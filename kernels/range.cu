// Writing the pairs of ranges, each straight to its place: how many there are is known beforehand, and
// where each range begins and ends in every run.
#include "merge_ranges.cuh"

namespace gpulsm {

/// Finds the piece of a number, of pieces of `size` pairs. The first piece of range i is number i. The
/// others follow: those numbers leave room for every one, and a few have none.
template <class Key, class Value>
__device__ bool find_piece(const Ranges<Key, Value>& ranges, uint64_t number, uint64_t size, Piece& piece) {
    if (!ranges.is_room()) return false;
    uint64_t range = number, first = number;
    if (number >= ranges.len) {
        number -= ranges.len;
        range = range_of(ranges, number, size, first);
        number++;
    }
    piece = piece_of(ranges, range, number - first, size);
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
    if (range >= ranges.len || !ranges.is_room()) return;
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

/// Whether so much room for the pairs of so many ranges is much for each.
inline bool are_long(uint64_t room, uint64_t all) { return room / all >= LONG_RANGE; }

}  // namespace gpulsm

using namespace gpulsm;

/// Words that `gpulsm_range` wants to share out answers over so many runs, of `total` ranges of `all`; the first of
/// them 0, unless there is one range only. Without them it shares out none, and takes long for long ones.
extern "C" uint64_t gpulsm_range_words(int key_width, int value_width, uint64_t runs, uint64_t total, uint64_t all,
                                       uint64_t room) {
    if (runs <= 1 || !are_long(room, all)) return 0;
    int width = key_width + (value_width > 0 ? value_width : sizeof(Nothing));
    return 1 + Parts(width, total, room).count * (runs + 2);
}

/// Writes the pairs of every range, if there is room for all of them.
GPULSM_EXPORT gpulsm_range(int key_width, int value_width, const View<char, char>* view,
                           const Ranges<char, char>* ranges, cudaStream_t stream) {
    return with_pair(key_width, value_width, [&](auto key, auto value) -> int {
        using Key = typename decltype(key)::type;
        using Value = typename decltype(value)::type;
        auto runs = typed<Key, Value>(*view);
        const auto& to = reinterpret_cast<const Ranges<Key, Value>&>(*ranges);
        if (runs.count <= 1) {
            bool by_warps = are_long(to.room, to.all);
            uint64_t pieces = to.len + to.room / COPY_PIECE + 1;
            auto copy = by_warps ? copy_kernel<32, Key, Value> : copy_kernel<COPY_LANES, Key, Value>;
            copy<<<blocks_for(pieces * (by_warps ? 32 : COPY_LANES), THREADS), THREADS, 0, stream>>>(runs.runs[0], to);
        } else if (to.flags != nullptr) {
            merge_long(runs, to, stream);
        } else {
            auto merge = runs.count <= 8 ? merge_short_kernel<8, Key, Value> : merge_short_kernel<MAX_RUNS, Key, Value>;
            merge<<<blocks_for(to.len, THREADS), THREADS, 0, stream>>>(runs, to);
        }
        return cudaGetLastError();
    });
}
