// Merging sorted sources into one run in one pass: for one key the newest entry stays, with the
// oldest one's shadow.
#include "dispatch.cuh"
#include "emit.cuh"
#include "prepare.cuh"

namespace gpulsm {

/// How many entries a tile may have; it is cut to have `SLACK` fewer.
template <int PER_THREAD>
constexpr unsigned TILE = THREADS * PER_THREAD;

/// An entry of a tile: its number, in the order of the sources, and its marks.
struct Item {
    uint16_t bits;

    __device__ static Item of(unsigned number, bool live, bool shadow) {
        return {static_cast<uint16_t>(number | live << 14 | shadow << 15)};
    }

    __device__ unsigned number() const { return bits & 0x3fff; }
    __device__ bool live() const { return bits >> 14 & 1; }
    __device__ bool shadow() const { return bits >> 15; }
};

/// A part of a source, as if it began at number 0 of the tile.
template <class Key, class Value>
struct Part {
    const Key* keys;
    const Value* values;
    uint64_t ahead;  // by how much positions are greater than numbers
    bool is_plain;   // Every entry is live and shadows nothing.
};

/// A tile of a merge: keys and items, which are merged where they lie, values by number, and whose they
/// are.
template <int PER_THREAD, class Key, class Value>
struct MergeTile {
    static_assert(TILE<PER_THREAD> < 1 << 14, "an item has room for its number");
    static constexpr unsigned PAST = PER_THREAD + 1;  // Past the end of a stretch anything may be read.
    Tally<PER_THREAD> tally;
    Key keys[TILE<PER_THREAD> + PAST];
    Item items[TILE<PER_THREAD> + PAST];
    Value values[TILE<PER_THREAD>];
    Part<Key, Value> parts[MAX_SOURCES];
    uint32_t offset[MAX_SOURCES + 1];  // where each part begins
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
/// after. The last one without a neighbour stays as it is. Threads are shared out pair by pair, for a
/// few places each; the plan of the merge leaves enough of them.
template <int PER_THREAD, class Key, class Value>
__device__ void merge_pairs(MergeTile<PER_THREAD, Key, Value>& tile, int count, int width) {
    unsigned thread = threadIdx.x;
    uint32_t start, middle, stop;
    bool is_busy = false;
    for (int pair = 0; pair + width < count; pair += 2 * width) {
        start = tile.offset[pair];
        middle = tile.offset[pair + width];
        stop = tile.offset[min(pair + 2 * width, count)];
        unsigned threads = (stop - start + PER_THREAD - 1) / PER_THREAD;
        is_busy = thread < threads;
        if (is_busy) break;
        thread -= threads;
    }
    uint32_t place = 0, many = 0;
    Key keys[PER_THREAD];
    Item items[PER_THREAD];
    if (is_busy) {
        uint32_t diagonal = thread * PER_THREAD;
        uint32_t firsts = merge_path(tile.keys + start, middle - start, tile.keys + middle, stop - middle, diagonal);
        uint32_t a = start + firsts, b = middle + (diagonal - firsts);
        place = start + diagonal;
        many = min(stop - place, static_cast<uint32_t>(PER_THREAD));
        Key key_a = tile.keys[a], key_b = tile.keys[b];
#pragma unroll
        for (int i = 0; i < PER_THREAD; i++) {
            bool first = b >= stop || (a < middle && key_a <= key_b);
            keys[i] = first ? key_a : key_b;
            items[i] = tile.items[first ? a : b];
            a += first;
            b += !first;
            Key next = tile.keys[first ? a : b];
            key_a = first ? next : key_a;
            key_b = first ? key_b : next;
        }
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < PER_THREAD; i++) {
        if (i < many) {
            tile.keys[place + i] = keys[i];
            tile.items[place + i] = items[i];
        }
    }
    __syncthreads();
}

/// Merges a tile. Without marks nothing is older: only live entries are kept.
template <bool MARKS, int PER_THREAD, class Key, class Value>
__global__ void __launch_bounds__(THREADS, sizeof(Key) + sizeof(Value) <= 8 ? 4 : sizeof(Value) <= 8 ? 3 : 2)
merge_kernel(const __grid_constant__ Sources<Key, Value> sources, const uint64_t* cuts, Chain chain,
             Output<Key, Value> out) {
    __shared__ MergeTile<PER_THREAD, Key, Value> tile;
    uint64_t index = Chain::tile();
    int count = sources.count;

    // The part of every source, newest first.
    if (threadIdx.x < count) {
        const uint64_t* cut = cuts + index * count + threadIdx.x;
        tile.parts[threadIdx.x].ahead = cut[0];
        tile.offset[threadIdx.x + 1] = static_cast<uint32_t>(cut[count] - cut[0]);
    }
    if (threadIdx.x == 0) tile.offset[0] = 0;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int source = 1; source < count; source++) tile.offset[source + 1] += tile.offset[source];
    }
    __syncthreads();
    if (threadIdx.x < count) {
        const Source<Key, Value>& source = sources.at[threadIdx.x];
        Part<Key, Value>& part = tile.parts[threadIdx.x];
        part.ahead -= tile.offset[threadIdx.x];
        part.keys = source.keys + part.ahead;
        part.values = source.values + (sizeof(Value) > 1 ? part.ahead : 0);
        part.is_plain = source.is_plain();
    }
    __syncthreads();
    // All that there is to read is asked for before the first of it is put anywhere.
    uint32_t here = tile.offset[count];
    Key mine[PER_THREAD];
    Value values[PER_THREAD];
    Item items_of_mine[PER_THREAD];
    int source = 0;
#pragma unroll
    for (int i = 0; i < PER_THREAD; i++) {
        uint32_t number = i * THREADS + threadIdx.x;
        if (number >= here) continue;
        while (tile.offset[source + 1] <= number) source++;
        const Part<Key, Value>& part = tile.parts[source];
        mine[i] = part.keys[number];
        if (part.is_plain) {
            values[i] = value_at(part.values, number);
            items_of_mine[i] = Item::of(number, true, false);
        } else {
            const Source<Key, Value>& from = sources.at[source];
            uint64_t position = part.ahead + number;
            bool live = from.live(position);
            values[i] = live ? from.value(position) : zero<Value>();
            items_of_mine[i] = Item::of(number, live, MARKS && from.shadow(position));
        }
    }
#pragma unroll
    for (int i = 0; i < PER_THREAD; i++) {
        uint32_t number = i * THREADS + threadIdx.x;
        if (number >= here) continue;
        tile.keys[number] = mine[i];
        tile.values[number] = values[i];
        tile.items[number] = items_of_mine[i];
    }
    __syncthreads();

    // Merged: newer entries of the same key come first.
    for (int width = 1; width < count; width *= 2) merge_pairs(tile, count, width);
    const Key* keys = tile.keys;
    const Item* items = tile.items;

    // The newest entry of a key says whether it is live, the oldest whether it shadows anything.
    Fate fate;
#pragma unroll
    for (int i = 0; i < PER_THREAD; i++) {
        uint32_t place = i * THREADS + threadIdx.x;
        if (place >= here || (place > 0 && keys[place - 1] == keys[place])) continue;
        bool live = items[place].live(), shadow = false;
        if constexpr (MARKS) {
            uint32_t last = place;
            while (last + 1 < here && keys[last + 1] == keys[place]) last++;
            shadow = items[last].shadow();
        }
        if (live || shadow) fate.set(i, live, shadow);
    }
    emit<MARKS, false>(tile.tally, keys, fate, chain, ELSEWHERE, out,
                       [&](unsigned place) { return tile.values[items[place].number()]; });
}

/// Entries for each thread, where there are many: as many as a thread, and shared memory, can hold.
constexpr int merge_items(int key_width, int value_width) {
    return key_width == 4 && value_width <= 8 ? MORE_ITEMS : key_width + value_width <= 20 ? ITEMS : LESS_ITEMS;
}

/// How a merge of so many entries is shared out.
struct Plan {
    bool few;
    uint64_t step, tiles;

    Plan(int key_width, int value_width, int sources, uint64_t bound) : few(bound <= FEW_ENTRIES) {
        int items = few ? FEW_ITEMS : merge_items(key_width, value_width);
        int pairs = (sources + 1) / 2;  // The last thread of each may have less to do than others.
        step = THREADS * items - SLACK - pairs * items;
        tiles = (bound + step - 1) / step;
    }
};

}  // namespace gpulsm

using namespace gpulsm;

/// Bytes of zeros that `gpulsm_merge` wants.
extern "C" uint64_t gpulsm_merge_scratch(int key_width, int value_width, int sources, uint64_t bound) {
    return Chain::bytes_for(Plan(key_width, value_width, sources, bound).tiles);
}

/// Bytes that `gpulsm_merge` wants for its cuts.
extern "C" uint64_t gpulsm_merge_cuts(int key_width, int value_width, int sources, uint64_t bound) {
    return (Plan(key_width, value_width, sources, bound).tiles + 1) * sources * sizeof(uint64_t);
}

/// Merges sources of at least one and at most `bound` entries; those that end up dead and shadow nothing
/// are dropped. Of up to two stretches of keys, which are sources too, it is found out before which are
/// live in the older runs.
GPULSM_EXPORT gpulsm_merge(int key_width, int value_width, const Sources<char, char>* sources, uint64_t bound,
                           const Shadows<char>* asked, const View<char, char>* older, void* zeros, uint64_t* cuts, const Output<char, char>* out,
                           cudaStream_t stream) {
    Plan plan(key_width, value_width, sources->count, bound);
    unsigned tiles = static_cast<unsigned>(plan.tiles);
    return with_pair(key_width, value_width, [&](auto key, auto value) -> int {
        using Key = typename decltype(key)::type;
        using Value = typename decltype(value)::type;
        Tiles cut = {plan.step, plan.tiles, cuts, reinterpret_cast<uint4*>(out->marks),
                     out->sectors * sizeof(Sector) / sizeof(uint4)};
        int error = prepare(reinterpret_cast<const Sources<Key, Nothing>&>(*sources), cut,
                            reinterpret_cast<const Shadows<Key>*>(asked),
                            typed<Key, Nothing>(*older), stream);
        if (error != cudaSuccess) return error;
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
