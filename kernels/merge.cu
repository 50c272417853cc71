// Merging sorted sources into one run in one pass: for one key the newest entry stays, with the
// oldest one's shadow.
#include "dispatch.cuh"
#include "emit.cuh"

namespace gpulsm {

/// Runs, and the two halves of a batch.
constexpr int MAX_SOURCES = MAX_RUNS + 2;
static_assert(SLACK >= MAX_SOURCES, "a key's entries must fit into the slack of a tile");

enum class Kind : int { Run, Inserts, Deletes };

/// Entries with unique keys, in key order.
template <class Key, class Value>
struct Source {
    const Key* keys;
    const Value* values;
    const Sector* marks;     // a run's; null where every entry is new
    const uint8_t* shadows;  // a batch's, a byte each; null where nothing is older
    const uint64_t* len;
    Kind kind;

    __device__ bool live(uint64_t position) const {
        return kind == Kind::Run ? is_live(marks, position) : kind == Kind::Inserts;
    }

    __device__ bool shadow(uint64_t position) const {
        if (kind == Kind::Run) return is_shadow(marks, position);
        return shadows != nullptr && shadows[position] != 0;
    }
};

/// Newest first.
template <class Key, class Value>
struct Sources {
    Source<Key, Value> at[MAX_SOURCES];
    int count;
};

/// How many entries a tile may have; it is cut to have `SLACK` fewer.
template <int PER_THREAD>
constexpr unsigned TILE = THREADS * PER_THREAD;

/// Where the cut of a tile may be, in every source: nowhere before `start`, and nowhere behind `end`.
struct Windows {
    uint64_t start[MAX_SOURCES], end[MAX_SOURCES];
    // Where the pivot is, or would be, and where what comes after it begins.
    uint64_t place[MAX_SOURCES], past[MAX_SOURCES];
};

__device__ __forceinline__ uint64_t add_up(const uint64_t* numbers, int count) {
    uint64_t sum = 0;
    for (int i = 0; i < count; i++) sum += numbers[i];
    return sum;
}

/// The first position from `start` to `end` whose key is not less than `pivot`. A few lanes look at a
/// key each at a time: a search for the latency of its few steps, not for its work. All lanes of the
/// warp must call it; those of one search bring the same.
template <class Key>
__device__ uint64_t search_by_lanes(const Key* keys, uint64_t start, uint64_t end, Key pivot) {
    unsigned lane = threadIdx.x % CUT_LANES, shift = threadIdx.x % 32 / CUT_LANES * CUT_LANES;
    auto less_than_pivot = [&](bool less) {
        return __popc(__ballot_sync(~0u, less) >> shift & ((1u << CUT_LANES) - 1));
    };
    while (__any_sync(~0u, end - start > CUT_LANES)) {
        bool done = end - start <= CUT_LANES;
        uint64_t piece = (end - start + CUT_LANES) / (CUT_LANES + 1), last = start + (lane + 1) * piece - 1;
        unsigned before = less_than_pivot(!done && last < end && keys[last] < pivot);
        if (done) continue;
        start += before * piece;
        end = before == CUT_LANES ? end : min(end, start + piece - 1);
    }
    return start + less_than_pivot(start + lane < end && keys[start + lane] < pivot);
}

/// Finds where each tile begins in every source: a block cuts at a key such that at most
/// `tile * step` entries are less, and at most `SLACK` fewer.
template <class Key>
__global__ void __launch_bounds__((MAX_SOURCES * CUT_LANES + 31) / 32 * 32)
cut_kernel(const __grid_constant__ Sources<Key, Nothing> sources, uint64_t step, uint64_t* cuts, uint4* marks,
           uint64_t marks_len) {
    __shared__ Windows windows;
    int count = sources.count;
    // The merge sets marks bit by bit: they must be clear before, and here is someone with time.
    uint64_t all = static_cast<uint64_t>(gridDim.x) * blockDim.x;
    for (uint64_t i = blockIdx.x * static_cast<uint64_t>(blockDim.x) + threadIdx.x; i < marks_len; i += all) {
        marks[i] = make_uint4(0, 0, 0, 0);
    }
    for (int source = threadIdx.x; source < count; source += blockDim.x) {
        windows.start[source] = 0;
        windows.end[source] = *sources.at[source].len;
    }
    __syncthreads();
    uint64_t below = 0, above = add_up(windows.end, count);  // entries before the windows, and up to their ends
    uint64_t goal = min(blockIdx.x * step, above);
    const uint64_t* cut = goal == above ? windows.end : windows.start;
    for (uint32_t round = 0; goal < above && goal - below > SLACK; round++) {
        // A pivot from the widest window: where the goal would be if all were spread evenly; after a
        // while every other time the middle, so that uneven ones cost no more than twice the halving.
        int widest = 0;
        for (int source = 1; source < count; source++) {
            uint64_t width = windows.end[source] - windows.start[source];
            if (width > windows.end[widest] - windows.start[widest]) widest = source;
        }
        uint64_t width = windows.end[widest] - windows.start[widest];
        double share = (goal - below - SLACK / 2.0) / static_cast<double>(above - below);
        bool halve = round > 3 && round % 2 == 0;
        uint64_t ahead = halve ? width / 2 : min(static_cast<uint64_t>(width * share), width - 1);
        Key pivot = sources.at[widest].keys[windows.start[widest] + ahead];
        int source = threadIdx.x / CUT_LANES;
        bool mine = source < count;
        const Key* keys = mine ? sources.at[source].keys : nullptr;
        uint64_t end = mine ? windows.end[source] : 0;
        uint64_t place = search_by_lanes(keys, mine ? windows.start[source] : 0, end, pivot);
        if (mine && threadIdx.x % CUT_LANES == 0) {
            windows.place[source] = place;
            windows.past[source] = place + (place < end && keys[place] == pivot);
        }
        __syncthreads();
        uint64_t less = add_up(windows.place, count), up_to = add_up(windows.past, count);
        if (less <= goal && up_to > goal) {  // The goal is among the entries of the pivot itself.
            cut = windows.place;
            break;
        }
        bool ahead_of_goal = less > goal;
        (ahead_of_goal ? above : below) = ahead_of_goal ? less : up_to;
        for (int source = threadIdx.x; source < count; source += blockDim.x) {
            if (ahead_of_goal) windows.end[source] = windows.place[source];
            else windows.start[source] = windows.past[source];
        }
        __syncthreads();
    }
    for (int source = threadIdx.x; source < count; source += blockDim.x) {
        cuts[blockIdx.x * static_cast<uint64_t>(count) + source] = cut[source];
    }
}

/// A tile of a merge: keys with their numbers before and after each round of merging, and whose they
/// are.
template <int PER_THREAD, class Key, class Value>
struct MergeTile {
    Tally<PER_THREAD> tally;
    Key keys[2][TILE<PER_THREAD>];
    uint16_t items[2][TILE<PER_THREAD>];
    uint8_t source[TILE<PER_THREAD>];
    Source<Key, Value> sources[MAX_SOURCES];  // here, because neighbours ask for different ones
    uint64_t begin[MAX_SOURCES];              // where each source's part begins there…
    uint32_t offset[MAX_SOURCES + 1];         // …and here

    __device__ uint64_t position(unsigned item) const { return begin[source[item]] + item - offset[source[item]]; }
};

/// How many of the first `diagonal` of two merged stretches are the first one's; of equal keys the
/// first one's come first.
template <class Key>
__device__ __forceinline__ uint32_t merge_path(const Key* a, uint32_t a_len, const Key* b, uint32_t b_len,
                                               uint32_t diagonal) {
    uint32_t low = diagonal > b_len ? diagonal - b_len : 0, high = min(diagonal, a_len);
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        bool first = a[middle] <= b[diagonal - 1 - middle];
        low = first ? middle + 1 : low;
        high = first ? high : middle;
    }
    return low;
}

/// Merges neighbours two by two: stretches of `width` sources are sorted before, of twice as many
/// after. Each thread writes what comes to its own few places.
template <int PER_THREAD, class Key, class Value>
__device__ void merge_pairs(MergeTile<PER_THREAD, Key, Value>& tile, int from, int count, int width) {
    const Key* keys = tile.keys[from];
    const uint16_t* items = tile.items[from];
    uint32_t place = threadIdx.x * PER_THREAD, end = min(place + PER_THREAD, tile.offset[count]);
    for (int pair = 0; place < end; pair += 2 * width) {
        uint32_t start = tile.offset[pair], middle = tile.offset[min(pair + width, count)];
        uint32_t stop = tile.offset[min(pair + 2 * width, count)];
        if (place >= stop) continue;
        uint32_t firsts = merge_path(keys + start, middle - start, keys + middle, stop - middle, place - start);
        uint32_t a = start + firsts, b = middle + (place - start - firsts);
        constexpr uint32_t LAST = TILE<PER_THREAD> - 1;  // Past the end of a stretch anything may be read.
        Key key_a = keys[min(a, LAST)], key_b = keys[min(b, LAST)];
        for (uint32_t until = min(end, stop); place < until; place++) {
            bool first = b >= stop || (a < middle && key_a <= key_b);
            tile.keys[1 - from][place] = first ? key_a : key_b;
            tile.items[1 - from][place] = items[first ? a : b];
            a += first;
            b += !first;
            Key next = keys[min(first ? a : b, LAST)];
            key_a = first ? next : key_a;
            key_b = first ? key_b : next;
        }
    }
}

/// Merges a tile. Without marks nothing is older: only live entries are kept.
template <bool MARKS, int PER_THREAD, class Key, class Value>
__global__ void __launch_bounds__(THREADS, 3)
merge_kernel(const __grid_constant__ Sources<Key, Value> sources, const uint64_t* cuts, Chain chain,
             Output<Key, Value> out) {
    __shared__ MergeTile<PER_THREAD, Key, Value> tile;
    uint64_t index = Chain::tile();
    int count = sources.count;

    // The part of every source, newest first.
    if (threadIdx.x < count) {
        const uint64_t* cut = cuts + index * count + threadIdx.x;
        tile.sources[threadIdx.x] = sources.at[threadIdx.x];
        tile.begin[threadIdx.x] = cut[0];
        tile.offset[threadIdx.x + 1] = static_cast<uint32_t>(cut[count] - cut[0]);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        tile.offset[0] = 0;
        for (int source = 0; source < count; source++) tile.offset[source + 1] += tile.offset[source];
    }
    __syncthreads();
    // All keys are asked for before the first is put anywhere.
    uint32_t here = tile.offset[count];
    Key mine[PER_THREAD];
    int source = 0;
#pragma unroll
    for (int i = 0; i < PER_THREAD; i++) {
        uint32_t item = i * THREADS + threadIdx.x;
        if (item >= here) continue;
        while (tile.offset[source + 1] <= item) source++;
        tile.source[item] = static_cast<uint8_t>(source);
        mine[i] = tile.sources[source].keys[tile.begin[source] + item - tile.offset[source]];
    }
#pragma unroll
    for (int i = 0; i < PER_THREAD; i++) {
        uint32_t item = i * THREADS + threadIdx.x;
        if (item >= here) continue;
        tile.keys[0][item] = mine[i];
        tile.items[0][item] = static_cast<uint16_t>(item);
    }
    __syncthreads();

    // Merged: newer entries of the same key come first.
    int now = 0;
    for (int width = 1; width < count; width *= 2) {
        merge_pairs(tile, now, count, width);
        now = 1 - now;
        __syncthreads();
    }
    const Key* keys = tile.keys[now];
    const uint16_t* items = tile.items[now];

    // The newest entry of a key says whether it is live, the oldest whether it shadows anything.
    Fate fate;
#pragma unroll
    for (int i = 0; i < PER_THREAD; i++) {
        uint32_t place = i * THREADS + threadIdx.x;
        if (place >= here || (place > 0 && keys[place - 1] == keys[place])) continue;
        uint32_t oldest = place;
        while (oldest + 1 < here && keys[oldest + 1] == keys[place]) oldest++;
        unsigned by = items[place], over = items[oldest];
        bool live = tile.sources[tile.source[by]].live(tile.position(by));
        bool shadow = MARKS && tile.sources[tile.source[over]].shadow(tile.position(over));
        if (live || shadow) fate.set(i, live, shadow);
    }
    emit<MARKS>(tile.tally, keys, fate, chain, ELSEWHERE, out, [&](unsigned place) {
        unsigned item = items[place];
        const Source<Key, Value>& from = tile.sources[tile.source[item]];
        return from.kind == Kind::Deletes ? zero<Value>() : value_at(from.values, tile.position(item));
    });
}

/// Entries for each thread, where there are many: as many as a thread, and shared memory, can hold.
constexpr int merge_items(int key_width, int value_width) {
    return key_width == 4 && value_width <= 8 ? MORE_ITEMS : ITEMS;
}

/// How a merge of so many entries is shared out.
struct Plan {
    bool few;
    uint64_t step, tiles;

    Plan(int key_width, int value_width, uint64_t bound) : few(bound <= FEW_ENTRIES) {
        step = THREADS * (few ? FEW_ITEMS : merge_items(key_width, value_width)) - SLACK;
        tiles = (bound + step - 1) / step;
    }
};

}  // namespace gpulsm

using namespace gpulsm;

/// Bytes of zeros that `gpulsm_merge` wants.
extern "C" uint64_t gpulsm_merge_scratch(int key_width, int value_width, uint64_t bound) {
    return Chain::bytes_for(Plan(key_width, value_width, bound).tiles);
}

/// Bytes that `gpulsm_merge` wants for its cuts.
extern "C" uint64_t gpulsm_merge_cuts(int key_width, int value_width, int sources, uint64_t bound) {
    return (Plan(key_width, value_width, bound).tiles + 1) * sources * sizeof(uint64_t);
}

/// Merges sources of at least one and at most `bound` entries; those that end up dead, or shadowing
/// nothing and dead, are dropped.
GPULSM_EXPORT gpulsm_merge(int key_width, int value_width, const Sources<char, char>* sources, uint64_t bound,
                           void* zeros, uint64_t* cuts, const Output<char, char>* out,
                           cudaStream_t stream) {
    Plan plan(key_width, value_width, bound);
    unsigned tiles = static_cast<unsigned>(plan.tiles);
    return with_pair(key_width, value_width, [&](auto key, auto value) -> int {
        using Key = typename decltype(key)::type;
        using Value = typename decltype(value)::type;
        unsigned warps = blocks_for(sources->count * CUT_LANES, 32);
        uint64_t marks_len = out->sectors * sizeof(Sector) / sizeof(uint4);
        cut_kernel<<<tiles + 1, warps * 32, 0, stream>>>(
            reinterpret_cast<const Sources<Key, Nothing>&>(*sources), plan.step, cuts,
            reinterpret_cast<uint4*>(out->marks), marks_len);
        constexpr int MANY = merge_items(sizeof(Key), std::is_empty_v<Value> ? 0 : sizeof(Value));
        bool marks = out->marks != nullptr;
        auto merge = marks ? plan.few ? merge_kernel<true, FEW_ITEMS, Key, Value> : merge_kernel<true, MANY, Key, Value>
                     : plan.few ? merge_kernel<false, FEW_ITEMS, Key, Value>
                                : merge_kernel<false, MANY, Key, Value>;
        merge<<<tiles, THREADS, 0, stream>>>(reinterpret_cast<const Sources<Key, Value>&>(*sources), cuts, Chain(zeros, tiles),
                                             reinterpret_cast<const Output<Key, Value>&>(*out));
        return cudaGetLastError();
    });
}
