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

/// A short range over up to `RUNS` runs, as one thread merges it: one whose entries are mostly dead, or one of the
/// others. Of the wrong kind there is nothing to merge.
template <bool DEAD, int RUNS, class Key, class Value>
struct ShortRange {
    static constexpr int UNROLL = RUNS <= 8 ? RUNS : 1;
    // The next entry of every run, and where the range ends there.
    uint64_t position[RUNS], stop[RUNS];
    Key next[RUNS];
    uint64_t place, end;  // of what is written next, and behind the last
    int dead;             // keys in a row that were dead

    __device__ ShortRange(const View<Key, Value>& view, const Ranges<Key, Value>& ranges, uint64_t range)
        : place(0), end(0), dead(0) {
        if (range >= ranges.len || !ranges.is_room()) return;
        place = __ldg(ranges.offsets + range);
        end = __ldg(ranges.offsets + range + 1);
        uint64_t left = 0;
#pragma unroll UNROLL
        for (int run = 0; run < RUNS; run++) {
            ulonglong2 window = run < view.count ? ranges.window(range, run) : make_ulonglong2(0, 0);
            position[run] = window.x;
            stop[run] = window.y;
            left += window.y - window.x;
        }
        bool is_mostly_dead = place < end && left > 4 * (end - place) + FEW_STALE;
        if (!DEAD && is_mostly_dead) ranges.flags[ARE_DEAD] = 1;
        if (DEAD != is_mostly_dead) end = place;
        if (place == end) return;
#pragma unroll UNROLL
        for (int run = 0; run < RUNS; run++) move(view, run, position[run]);
    }

    __device__ __forceinline__ void move(const View<Key, Value>& view, int run, uint64_t to) {
        position[run] = to;
        if (position[run] < stop[run]) next[run] = __ldg(view.runs[run].keys + position[run]);
    }

    /// The least key that is next, if there is any.
    __device__ __forceinline__ bool next_key(Key& key) const {
        bool any = false;
        key = 0;
#pragma unroll UNROLL
        for (int run = 0; run < RUNS; run++) {
            if (position[run] < stop[run] && (!any || next[run] < key)) any = true, key = next[run];
        }
        return any;
    }

    /// Writes pairs until all are there, or many keys in a row were dead.
    __device__ void merge(const View<Key, Value>& view, const Ranges<Key, Value>& ranges) {
        while (place < end && (!DEAD || dead < DEAD_KEYS)) {
            // Of equal keys the newest run's entry comes first, and decides.
            Key key;
            if (!next_key(key)) return;
            bool live = false, is_newest = true;
            Value value = zero<Value>();
#pragma unroll UNROLL
            for (int run = 0; run < RUNS; run++) {
                if (position[run] >= stop[run] || next[run] != key) continue;
                if (is_newest) {
                    live = is_live(view.runs[run].marks, position[run]);
                    if (live && ranges.values != nullptr) value = value_at(view.runs[run].values, position[run]);
                }
                is_newest = false;
                move(view, run, position[run] + 1);
            }
            dead = live ? 0 : dead + 1;
            if (!live) continue;
            ranges.keys[place] = key;
            if (sizeof(Value) > 1 && ranges.values != nullptr) ranges.values[place] = value;
            place++;
        }
    }

    /// Goes on behind the stretch of dead keys that one lane of the warp is in, and all others in the same one. For
    /// the whole warp; says whether any lane was in one.
    __device__ bool skip_dead(const View<Key, Value>& view) {
        bool is_stuck = dead == DEAD_KEYS && place < end;
        unsigned stuck = __ballot_sync(~0u, is_stuck);
        if (stuck == 0) return false;
        int owner = __ffs(stuck) - 1;
        RunPlaces places(view.count);
#pragma unroll UNROLL
        for (int run = 0; run < RUNS; run++) {
            uint64_t from = __shfl_sync(~0u, position[run], owner), to = __shfl_sync(~0u, stop[run], owner);
            places.set(run, from, to);
        }
        Key own = 0;
        next_key(own);
        Key first = __shfl_sync(~0u, own, owner), live = next_live(view, places);
        bool skips = is_stuck && own >= first && own < live;
#pragma unroll UNROLL
        for (int run = 0; run < RUNS; run++) {
            uint64_t to = places.place(run);
            if (skips && run < view.count) move(view, run, to);
        }
        if (skips || threadIdx.x % 32 == owner) dead = 0;
        return true;
    }
};

/// Short ranges over up to `RUNS` runs: a merge by one thread each.
template <int RUNS, class Key, class Value>
__global__ void __launch_bounds__(THREADS)
merge_short_kernel(const __grid_constant__ View<Key, Value> view,
                   const __grid_constant__ Ranges<Key, Value> ranges) {
    uint64_t range = blockIdx.x * static_cast<uint64_t>(THREADS) + threadIdx.x;
    ShortRange<false, RUNS, Key, Value>(view, ranges, range).merge(view, ranges);
}

/// Those whose entries are mostly dead, which the others leave out.
template <int RUNS, class Key, class Value>
__global__ void __launch_bounds__(THREADS)
merge_short_dead_kernel(const __grid_constant__ View<Key, Value> view,
                        const __grid_constant__ Ranges<Key, Value> ranges) {
    if (ranges.flags[ARE_DEAD] == 0) return;
    uint64_t range = blockIdx.x * static_cast<uint64_t>(THREADS) + threadIdx.x;
    ShortRange<true, RUNS, Key, Value> mine(view, ranges, range);
    do mine.merge(view, ranges);
    while (mine.skip_dead(view));
}

/// Writes the pairs of short ranges over up to `RUNS` runs.
template <int RUNS, class Key, class Value>
void merge_short(const View<Key, Value>& view, const Ranges<Key, Value>& ranges, cudaStream_t stream) {
    unsigned blocks = blocks_for(ranges.len, THREADS);
    merge_short_kernel<RUNS><<<blocks, THREADS, 0, stream>>>(view, ranges);
    merge_short_dead_kernel<RUNS><<<blocks, THREADS, 0, stream>>>(view, ranges);
}

/// Whether so much room for the pairs of so many ranges is much for each.
inline bool are_long(uint64_t room, uint64_t all) { return room / all >= LONG_RANGE; }

}  // namespace gpulsm

using namespace gpulsm;

/// Returns how many words the blocks that answer ranges share, and how many bytes of those must be zero at first: for
/// `total` ranges, of the call's `all`, over `runs` runs. Without the words for long ranges no answer is shared out among
/// blocks, and long ones take long.
extern "C" uint64_t gpulsm_range_words(int key_width, int value_width, uint64_t runs, uint64_t total, uint64_t all,
                                       uint64_t room, bool for_long, uint64_t* zeros) {
    using Any = Ranges<uint64_t, char>;
    *zeros = runs <= 1 ? 0 : Any::FLAG_WORDS * sizeof(uint64_t);
    if (runs <= 1 || !for_long || !are_long(room, all)) return *zeros / sizeof(uint64_t);
    *zeros += offsetof(DeadStretches<uint64_t>, first);
    int width = key_width + (value_width > 0 ? value_width : sizeof(Nothing));
    return Any::FLAG_WORDS + Any::DEAD_WORDS + Parts(width, total, room).count * (runs + 2);
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
