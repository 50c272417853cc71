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

/// A tile of a merge: keys and items before and after each round of merging, and whose they are.
template <int PER_THREAD, class Key, class Value>
struct MergeTile {
    static_assert(TILE<PER_THREAD> < 1 << 14, "an item has room for its number");
    Tally<PER_THREAD> tally;
    Key keys[2][TILE<PER_THREAD>];
    Item items[2][TILE<PER_THREAD>];
    uint8_t source[TILE<PER_THREAD>];
    Source<Key, Value> sources[MAX_SOURCES];  // here, because neighbours ask for different ones
    uint32_t offset[MAX_SOURCES + 1];         // where each source's part begins here…
    uint64_t ahead[MAX_SOURCES];              // …and by how much more there
    const Value* values[MAX_SOURCES];         // of the entry that would be number 0 here
    const uint32_t* numbers;                  // of a mixed batch's updates, which are the first source's

    __device__ Value value(Item item) const {
        if (!item.live()) return zero<Value>();
        unsigned from = source[item.number()];
        if (from == 0 && numbers != nullptr) return value_at(values[0], numbers[item.number()]);
        return value_at(values[from], item.number());
    }
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
    const Item* items = tile.items[from];
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
__global__ void __launch_bounds__(THREADS, sizeof(Key) + sizeof(Value) <= 8 ? 4 : sizeof(Value) <= 8 ? 3 : 2)
merge_kernel(const __grid_constant__ Sources<Key, Value> sources, const uint64_t* cuts, Chain chain,
             Output<Key, Value> out) {
    __shared__ MergeTile<PER_THREAD, Key, Value> tile;
    uint64_t index = Chain::tile();
    int count = sources.count;

    // The part of every source, newest first.
    if (threadIdx.x < count) {
        const uint64_t* cut = cuts + index * count + threadIdx.x;
        tile.sources[threadIdx.x] = sources.at[threadIdx.x];
        tile.ahead[threadIdx.x] = cut[0];
        tile.offset[threadIdx.x + 1] = static_cast<uint32_t>(cut[count] - cut[0]);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        tile.offset[0] = 0;
        for (int source = 0; source < count; source++) {
            tile.ahead[source] -= tile.offset[source];
            tile.offset[source + 1] += tile.offset[source];
            bool in_step = sizeof(Value) > 1 && tile.sources[source].kind != Kind::Mixed;
            tile.values[source] = tile.sources[source].values + (in_step ? tile.ahead[source] : 0);
        }
        bool is_mixed = tile.sources[0].kind == Kind::Mixed;
        tile.numbers = is_mixed ? tile.sources[0].numbers + tile.ahead[0] : nullptr;
    }
    __syncthreads();
    // All keys and marks are asked for before the first is put anywhere.
    uint32_t here = tile.offset[count];
    Key mine[PER_THREAD];
    Item items_of_mine[PER_THREAD];
    int source = 0;
#pragma unroll
    for (int i = 0; i < PER_THREAD; i++) {
        uint32_t number = i * THREADS + threadIdx.x;
        if (number >= here) continue;
        while (tile.offset[source + 1] <= number) source++;
        tile.source[number] = static_cast<uint8_t>(source);
        const Source<Key, Value>& from = tile.sources[source];
        uint64_t position = tile.ahead[source] + number;
        mine[i] = from.keys[position];
        items_of_mine[i] = Item::of(number, from.live(position), MARKS && from.shadow(position));
    }
#pragma unroll
    for (int i = 0; i < PER_THREAD; i++) {
        uint32_t number = i * THREADS + threadIdx.x;
        if (number >= here) continue;
        tile.keys[0][number] = mine[i];
        tile.items[0][number] = items_of_mine[i];
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
    const Item* items = tile.items[now];

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
    emit<MARKS>(tile.tally, keys, fate, chain, ELSEWHERE, out,
                [&](unsigned place) { return tile.value(items[place]); });
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

/// Merges sources of at least one and at most `bound` entries; those that end up dead and shadow nothing
/// are dropped. The halves of a batch, at most `updates` keys each, come first; if there are older runs,
/// which of their keys shadow an entry there is found out too.
GPULSM_EXPORT gpulsm_merge(int key_width, int value_width, const Sources<char, char>* sources, uint64_t bound,
                           const uint64_t* updates, const View<char, char>* older, void* zeros, uint64_t* cuts, const Output<char, char>* out,
                           cudaStream_t stream) {
    Plan plan(key_width, value_width, bound);
    unsigned tiles = static_cast<unsigned>(plan.tiles);
    return with_pair(key_width, value_width, [&](auto key, auto value) -> int {
        using Key = typename decltype(key)::type;
        using Value = typename decltype(value)::type;
        Tiles cut = {plan.step, plan.tiles, cuts, reinterpret_cast<uint4*>(out->marks),
                     out->sectors * sizeof(Sector) / sizeof(uint4)};
        int error = prepare(reinterpret_cast<const Sources<Key, Nothing>&>(*sources), cut, updates,
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
