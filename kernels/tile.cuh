// A tile of a merge: parts of a few sorted sources, merged in shared memory. For one key the newest entry
// stays.
#pragma once

#include <cub/block/block_scan.cuh>

#include "emit.cuh"
#include "sources.cuh"

namespace gpulsm {

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
    bool is_plain;
    Source<Key, Value> source;
};

/// What there is to keep of a stretch, and of all before: entries, those that are live, and those that
/// shadow an older one; 20 bits each. Without marks all that are kept are live, and shadow nothing.
template <bool MARKS>
using Counts = std::conditional_t<MARKS, uint64_t, uint32_t>;

template <bool MARKS>
__device__ __forceinline__ Totals totals_of(Counts<MARKS> counts) {
    if constexpr (MARKS) return unpack_counts(counts);
    else return {counts, static_cast<int64_t>(counts), 0, 0};
}

/// A tile that a block of so many threads merges: keys and items, which are merged where they lie, values by
/// number, and whose they are.
template <bool MARKS, int BLOCK, int PER_THREAD, class Key, class Value>
struct MergeTile {
    static constexpr unsigned MOST = BLOCK * PER_THREAD;  // entries
    static_assert(MOST < 1 << 14, "an item has room for its number");
    static constexpr unsigned PAST = PER_THREAD + 1;  // Past the end of a stretch anything may be read.
    Key keys[MOST + PAST];
    Item items[MOST + PAST];
    Value values[MOST];
    Part<Key, Value> parts[MAX_SOURCES];
    uint32_t offset[MAX_SOURCES + 1];  // where each part begins
    typename cub::BlockScan<Counts<MARKS>, BLOCK>::TempStorage scan;
    Totals before;  // of the tiles before this one

    /// The source, of so many, that an entry is of; not before `source`.
    __device__ int source_of(uint32_t number, int source, int count) const {
        if (count <= 4) {
            while (offset[source + 1] <= number) source++;
            return source;
        }
        while (count - source > 1) {
            int middle = (source + count) / 2;
            (offset[middle] <= number ? source : count) = middle;
        }
        return source;
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

/// Two sorted stretches of a tile, one behind the other, and how far each has been merged.
struct Pair {
    uint32_t a, middle, b, stop;

    /// The two from `start` to `middle` and from there to `stop`, their first `diagonal` entries merged.
    template <class Key>
    __device__ Pair(const Key* keys, uint32_t start, uint32_t middle, uint32_t stop, uint32_t diagonal)
        : middle(middle), stop(stop) {
        uint32_t firsts = merge_path(keys + start, middle - start, keys + middle, stop - middle, diagonal);
        a = start + firsts;
        b = middle + (diagonal - firsts);
    }

    /// Merges the next few. Past the end of both, anything.
    template <int PER_THREAD, class Key, class Tile>
    __device__ __forceinline__ void next(const Tile& tile, Key (&keys)[PER_THREAD], Item (&items)[PER_THREAD]) {
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
};

/// Merges neighbours two by two: stretches of `width` sources are sorted before, of twice as many
/// after. The last one without a neighbour stays as it is. Each thread merges a few places of one pair: the
/// first of a pair is number `offset / PER_THREAD + pair`, which leaves enough for the pairs before, and
/// the plan of the merge leaves enough for all.
template <bool MARKS, int BLOCK, int PER_THREAD, class Key, class Value>
__device__ void merge_pairs(MergeTile<MARKS, BLOCK, PER_THREAD, Key, Value>& tile, int count, int width) {
    int pair = 0;
    for (int end = (count - 1) / width / 2 + 1; end - pair > 1;) {
        int middle = (pair + end) / 2;
        (tile.offset[middle * 2 * width] / PER_THREAD + middle <= threadIdx.x ? pair : end) = middle;
    }
    int first = pair * 2 * width;
    uint32_t start = tile.offset[first];
    unsigned thread = threadIdx.x - (start / PER_THREAD + pair);
    uint32_t middle = tile.offset[min(first + width, count)], stop = tile.offset[min(first + 2 * width, count)];
    bool is_busy = first + width < count && start + thread * PER_THREAD < stop;
    uint32_t place = 0, many = 0;
    Key keys[PER_THREAD];
    Item items[PER_THREAD];
    if (is_busy) {
        uint32_t diagonal = thread * PER_THREAD;
        place = start + diagonal;
        many = min(stop - place, static_cast<uint32_t>(PER_THREAD));
        Pair(tile.keys, start, middle, stop, diagonal).next(tile, keys, items);
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

/// Entries of a tile that one thread has, in key order, and which of them are kept; a bit each.
template <int PER_THREAD, class Key>
struct Stretch {
    Key keys[PER_THREAD];
    Item items[PER_THREAD];
    unsigned lives = 0, shadows = 0;  // What is neither is not kept.

    __device__ unsigned keep() const { return lives | shadows; }

    /// Merges the last two stretches of a tile, of which the second begins at `middle`: this thread's
    /// part. The newest entry of a key says whether it is live, the oldest whether it shadows anything;
    /// one of them is kept, if either is so.
    template <bool MARKS, int BLOCK, class Value>
    __device__ Stretch(const MergeTile<MARKS, BLOCK, PER_THREAD, Key, Value>& tile, uint32_t middle, uint32_t here) {
        uint32_t diagonal = threadIdx.x * PER_THREAD;
        if (diagonal >= here) return;
        uint32_t many = min(here - diagonal, static_cast<uint32_t>(PER_THREAD));
        Pair pair(tile.keys, 0, middle, here, diagonal);
        // The key before, if there is one.
        Key before = max(pair.a > 0 ? tile.keys[pair.a - 1] : 0, pair.b > middle ? tile.keys[pair.b - 1] : 0);
        pair.next(tile, keys, items);
        // Older entries of the last key may be the next thread's.
        bool shadow = false;
        if (MARKS && many == PER_THREAD) {
            Key last = keys[PER_THREAD - 1];
            shadow = items[PER_THREAD - 1].shadow();
            for (; pair.a < middle && tile.keys[pair.a] == last; pair.a++) shadow = tile.items[pair.a].shadow();
            for (; pair.b < here && tile.keys[pair.b] == last; pair.b++) shadow = tile.items[pair.b].shadow();
        }
#pragma unroll
        for (int i = PER_THREAD - 1; i >= 0; i--) {
            if (i >= many) continue;
            if (MARKS && i + 1 < PER_THREAD && (i + 1 == many || keys[min(i + 1, PER_THREAD - 1)] != keys[i])) {
                shadow = items[i].shadow();
            }
            bool is_newest = i > 0 ? keys[max(i - 1, 0)] != keys[i] : diagonal == 0 || before != keys[i];
            bool live = items[i].live();
            if (!is_newest) continue;
            lives |= static_cast<unsigned>(live) << i;
            shadows |= static_cast<unsigned>(shadow) << i;
            if constexpr (MARKS) items[i] = Item::of(items[i].number(), live, shadow);
        }
    }

    /// The sum of the marks of the first so many that are kept.
    __device__ int64_t sum_of_first(uint64_t many) const {
        unsigned rest = keep();
        for (; many > 0; many--) rest &= rest - 1;
        unsigned first = keep() & ~rest;
        return __popc(lives & first) - __popc(shadows & first);
    }
};

/// Makes offsets of the lengths of `count` parts, which are where the next one's offset belongs, and reads
/// all entries. Parts know their sources, and how far ahead of the sources' beginnings they begin. For the
/// whole block, which has seen to it that all of that is there.
template <bool MARKS, int BLOCK, int PER_THREAD, class Key, class Value>
__device__ void load(MergeTile<MARKS, BLOCK, PER_THREAD, Key, Value>& tile, int count) {
    static_assert(MAX_SOURCES <= BLOCK - 32, "there is a thread for every part, beside the first warp's");
    if (threadIdx.x < 32) {
        uint32_t before = 0;
        for (int start = 1; start <= count; start += 32) {
            int source = start + threadIdx.x;
            uint32_t sum = source <= count ? tile.offset[source] : 0;
            for (unsigned step = 1; step < 32; step *= 2) {
                uint32_t other = __shfl_up_sync(~0u, sum, step);
                if (threadIdx.x >= step) sum += other;
            }
            if (source <= count) tile.offset[source] = before + sum;
            before += __shfl_sync(~0u, sum, 31);
        }
        if (threadIdx.x == 0) tile.offset[0] = 0;
    } else if (threadIdx.x - 32 < count) {
        Part<Key, Value>& part = tile.parts[threadIdx.x - 32];
        part.is_plain = part.source.template is_plain<MARKS>();
    }
    __syncthreads();
    if (threadIdx.x < count) {
        Part<Key, Value>& part = tile.parts[threadIdx.x];
        part.ahead -= tile.offset[threadIdx.x];
        part.keys = part.source.keys + part.ahead;
        part.values = part.source.values + (sizeof(Value) > 1 ? part.ahead : 0);
    }
    __syncthreads();
    // All that there is to read is asked for before the first of it is put anywhere.
    uint32_t here = tile.offset[count];
    Key keys[PER_THREAD];
    Value values[PER_THREAD];
    unsigned lives = ~0u, shadows = 0;
    int source = 0;
#pragma unroll
    for (int i = 0; i < PER_THREAD; i++) {
        uint32_t number = i * BLOCK + threadIdx.x;
        if (number >= here) continue;
        source = tile.source_of(number, source, count);
        const Part<Key, Value>& part = tile.parts[source];
        keys[i] = part.keys[number];
        if (part.is_plain) {
            values[i] = value_at(part.values, number);
            continue;
        }
        uint64_t position = part.ahead + number;
        bool live = part.source.live(position);
        values[i] = live ? part.source.value(position) : zero<Value>();
        if (!live) lives &= ~(1u << i);
        if (MARKS && part.source.shadow(position)) shadows |= 1u << i;
    }
#pragma unroll
    for (int i = 0; i < PER_THREAD; i++) {
        uint32_t number = i * BLOCK + threadIdx.x;
        if (number >= here) continue;
        tile.keys[number] = keys[i];
        tile.values[number] = values[i];
        tile.items[number] = Item::of(number, lives >> i & 1, shadows >> i & 1);
    }
    __syncthreads();
}

/// Merges the parts of a tile: newer entries of the same key come first. In the last round entries are
/// kept, or not.
template <bool MARKS, int BLOCK, int PER_THREAD, class Key, class Value>
__device__ Stretch<PER_THREAD, Key> merge(MergeTile<MARKS, BLOCK, PER_THREAD, Key, Value>& tile, int count) {
    int width = 1;
    for (; 2 * width < count; width *= 2) merge_pairs(tile, count, width);
    return Stretch<PER_THREAD, Key>(tile, tile.offset[min(width, count)], tile.offset[count]);
}

/// Packs together the entries of a tile that are kept, with their items. Says what is kept before this
/// thread's, and in all. Every thread sees them afterwards.
template <bool MARKS, int BLOCK, int PER_THREAD, class Key, class Value>
__device__ void pack(MergeTile<MARKS, BLOCK, PER_THREAD, Key, Value>& tile, const Stretch<PER_THREAD, Key>& mine,
                     Counts<MARKS>& before, Counts<MARKS>& all) {
    Counts<MARKS> counts;
    if constexpr (MARKS) counts = pack_counts(mine.keep(), mine.lives, mine.shadows);
    else counts = __popc(mine.keep());
    cub::BlockScan<Counts<MARKS>, BLOCK>(tile.scan).ExclusiveSum(counts, before, all);
    // By now every thread has read what it merged.
    uint32_t place = static_cast<uint32_t>(totals_of<MARKS>(before).kept);
#pragma unroll
    for (int i = 0; i < PER_THREAD; i++) {
        if (!(mine.keep() >> i & 1)) continue;
        tile.keys[place] = mine.keys[i];
        tile.items[place] = mine.items[i];
        place++;
    }
    __syncthreads();
}

}  // namespace gpulsm
