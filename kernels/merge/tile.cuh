// A tile of a merge: parts of a few sorted sources in shared memory. `rounds.cuh` merges them.
#pragma once

#include <cub/block/block_scan.cuh>

#include "merge/sources.cuh"
#include "run/emit.cuh"

namespace gpulsm {

/// An entry of a tile, in 16 bits: its number, in the order of the sources, and above it the code of its mark.
struct TileEntry {
    static constexpr unsigned NUMBER_BITS = 16 - Mark::BITS;
    static constexpr unsigned LIVE_BIT = NUMBER_BITS + Mark::LIVE_BIT, SHADOW_BIT = NUMBER_BITS + Mark::SHADOW_BIT;

    uint16_t bits;

    __device__ static TileEntry of(unsigned number, unsigned mark) {
        return {static_cast<uint16_t>(number | mark << NUMBER_BITS)};
    }
    __device__ static TileEntry of(unsigned number, bool live, bool shadow) {
        return {static_cast<uint16_t>(number | live << LIVE_BIT | shadow << SHADOW_BIT)};
    }

    __device__ unsigned number() const { return bits & ((1u << NUMBER_BITS) - 1); }
    __device__ unsigned mark() const { return bits >> NUMBER_BITS; }
    __device__ bool is_live() const { return bits >> LIVE_BIT & 1; }
    __device__ bool is_shadow() const { return bits >> SHADOW_BIT & 1; }
};

/// A part of a source, addressed by the numbers of its entries in the tile.
template <class Key, class Value>
struct Part {
    const Key* keys;
    const Value* values;
    uint64_t ahead;  // what to add to a number to get a position in the source
    bool is_plain;
    Source<Key, Value> source;
};

/// Counts of entries: kept, live, and shadows, in 20 bits each. Without marks all entries that are kept are live
/// and none is a shadow, so one count is enough.
template <bool MARKS>
using Counts = std::conditional_t<MARKS, uint64_t, uint32_t>;

template <bool MARKS, class Key>
__device__ __forceinline__ Totals<Key> totals_of(Counts<MARKS> counts) {
    if constexpr (MARKS) return unpack_counts<Key>(counts);
    else return {counts, static_cast<int64_t>(counts), 0, 0};
}

/// A tile that a block of `BLOCK` threads merges: keys and entries, which are merged in place, values by number,
/// and the parts they come from.
template <bool MARKS, int BLOCK, int PER_THREAD, class Key, class Value>
struct MergeTile {
    static constexpr unsigned CAPACITY = BLOCK * PER_THREAD;  // entries
    static_assert(CAPACITY < 1 << TileEntry::NUMBER_BITS, "an entry has bits for its number");
    static constexpr unsigned PADDING = PER_THREAD + 1;  // A merge may read past the end of a sequence.
    Key keys[CAPACITY + PADDING];
    TileEntry entries[CAPACITY + PADDING];
    Value values[CAPACITY];
    Part<Key, Value> parts[MAX_SOURCES];
    uint32_t offset[MAX_SOURCES + 1];  // of the first entry of each part
    typename cub::BlockScan<Counts<MARKS>, BLOCK>::TempStorage scan;
    Totals<Key> before;  // of the tiles before this one

    /// Returns the source of an entry; `source` is a lower bound.
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

/// Replaces the lengths of `count` parts, which are in `offset[1]` and the ones after it, by their running sums. For
/// one warp.
__device__ __forceinline__ void sum_offsets(uint32_t* offset, int count) {
    uint32_t before = 0;
    for (int start = 1; start <= count; start += 32) {
        int source = start + threadIdx.x;
        uint32_t sum = source <= count ? offset[source] : 0;
        for (unsigned step = 1; step < 32; step *= 2) {
            uint32_t other = __shfl_up_sync(~0u, sum, step);
            if (threadIdx.x >= step) sum += other;
        }
        if (source <= count) offset[source] = before + sum;
        before += __shfl_sync(~0u, sum, 31);
    }
    if (threadIdx.x == 0) offset[0] = 0;
}

/// Loads a tile of `count` parts. Before, `offset[i + 1]` is the length of part i, and each part has its source and, as
/// `ahead`, its first position there; the block is synchronized. Afterwards the offsets are running sums. If values
/// combine (`COMBINES`), entries have all bits of their marks, also in a tile without marks.
template <bool COMBINES, bool MARKS, int BLOCK, int PER_THREAD, class Key, class Value>
__device__ void load(MergeTile<MARKS, BLOCK, PER_THREAD, Key, Value>& tile, int count) {
    static_assert(MAX_SOURCES <= BLOCK - 32, "every part has a thread outside the first warp");
    // The first warp adds up the lengths, the others find out which parts need no marks.
    if (threadIdx.x < 32) {
        sum_offsets(tile.offset, count);
    } else if (threadIdx.x - 32 < count) {
        Part<Key, Value>& part = tile.parts[threadIdx.x - 32];
        part.is_plain = part.source.template is_plain<MARKS || COMBINES>();
    }
    __syncthreads();
    if (threadIdx.x < count) {
        Part<Key, Value>& part = tile.parts[threadIdx.x];
        part.ahead -= tile.offset[threadIdx.x];
        part.keys = part.source.keys + part.ahead;
        part.values = part.source.values + (sizeof(Value) > 1 ? part.ahead : 0);
    }
    __syncthreads();
    // Issue all loads before the first store.
    uint32_t tile_len = tile.offset[count];
    Key keys[PER_THREAD];
    Value values[PER_THREAD];
    unsigned lives = ~0u, shadows = 0, sets = 0;
    int source = 0;
#pragma unroll
    for (int i = 0; i < PER_THREAD; i++) {
        uint32_t number = i * BLOCK + threadIdx.x;
        if (number >= tile_len) continue;
        source = tile.source_of(number, source, count);
        const Part<Key, Value>& part = tile.parts[source];
        keys[i] = part.keys[number];
        if (part.is_plain) {
            values[i] = value_at(part.values, number);
            continue;
        }
        uint64_t position = part.ahead + number;
        if constexpr (COMBINES) {
            unsigned mark = part.source.mark(position);
            values[i] = mark & Mark::LIVE ? part.source.value(position) : zero<Value>();
            if (!(mark & Mark::LIVE)) lives &= ~(1u << i);
            if (mark & Mark::SHADOW) shadows |= 1u << i;
            if (mark & Mark::SET) sets |= 1u << i;
            continue;
        }
        bool live = part.source.live(position);
        values[i] = live ? part.source.value(position) : zero<Value>();
        if (!live) lives &= ~(1u << i);
        if (MARKS && part.source.shadow(position)) shadows |= 1u << i;
    }
#pragma unroll
    for (int i = 0; i < PER_THREAD; i++) {
        uint32_t number = i * BLOCK + threadIdx.x;
        if (number >= tile_len) continue;
        tile.keys[number] = keys[i];
        tile.values[number] = values[i];
        unsigned mark = (lives >> i & 1) << Mark::LIVE_BIT | (shadows >> i & 1) << Mark::SHADOW_BIT |
                        (sets >> i & 1) << Mark::SET_BIT;
        tile.entries[number] = TileEntry::of(number, mark);
    }
    __syncthreads();
}

}  // namespace gpulsm
