// Merges the parts of a tile in shared memory, two neighbours in age at a time, and applies the rule of merging in
// the last round.
#pragma once

#include "merge/tile.cuh"

namespace gpulsm {

/// Returns how many of the first `diagonal` entries of two merged sequences come from the first. Of equal keys
/// those of the first sequence come first.
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

/// Two adjacent sorted sequences of a tile, and how far each has been merged.
struct SequencePair {
    uint32_t a, middle, b, stop;

    /// Starts after the first `diagonal` entries of the merged sequences, which reach from `start` to `middle` and
    /// from there to `stop`.
    template <class Key>
    __device__ SequencePair(const Key* keys, uint32_t start, uint32_t middle, uint32_t stop, uint32_t diagonal)
        : middle(middle), stop(stop) {
        uint32_t firsts = merge_path(keys + start, middle - start, keys + middle, stop - middle, diagonal);
        a = start + firsts;
        b = middle + (diagonal - firsts);
    }

    /// Merges the next `PER_THREAD` entries. Past the end of both sequences the result is undefined.
    template <int PER_THREAD, class Key, class Tile>
    __device__ __forceinline__ void next(const Tile& tile, Key (&keys)[PER_THREAD], TileEntry (&entries)[PER_THREAD]) {
        Key key_a = tile.keys[a], key_b = tile.keys[b];
#pragma unroll
        for (int i = 0; i < PER_THREAD; i++) {
            bool first = b >= stop || (a < middle && key_a <= key_b);
            keys[i] = first ? key_a : key_b;
            entries[i] = tile.entries[first ? a : b];
            a += first;
            b += !first;
            Key next = tile.keys[first ? a : b];
            key_a = first ? next : key_a;
            key_b = first ? key_b : next;
        }
    }
};

/// Merges pairs of neighbouring sequences. A sequence holds `width` sources before, and twice as many after. A last
/// sequence without a neighbour stays as it is. Each thread merges up to `PER_THREAD` entries of one pair. The first
/// thread of a pair is number `offset / PER_THREAD + pair`, which leaves enough threads for the pairs before. Tiles are
/// limited (`MergeTiling`, `RangeMerge::capacity`) such that there are enough threads for all pairs.
template <bool MARKS, int BLOCK, int PER_THREAD, class Key, class Value>
__device__ void merge_pairs(MergeTile<MARKS, BLOCK, PER_THREAD, Key, Value>& tile, int count, int width) {
    // Find this thread's pair, the last one whose first thread is not greater.
    int pair = 0;
    for (int end = (count - 1) / width / 2 + 1; end - pair > 1;) {
        int middle = (pair + end) / 2;
        (tile.offset[middle * 2 * width] / PER_THREAD + middle <= threadIdx.x ? pair : end) = middle;
    }
    int first = pair * 2 * width;
    uint32_t start = tile.offset[first];
    unsigned thread = threadIdx.x - (start / PER_THREAD + pair);
    uint32_t middle = tile.offset[min(first + width, count)], stop = tile.offset[min(first + 2 * width, count)];

    // Merge into registers, and write back when all threads have read.
    bool is_busy = first + width < count && start + thread * PER_THREAD < stop;
    uint32_t place = 0, many = 0;
    Key keys[PER_THREAD];
    TileEntry entries[PER_THREAD];
    if (is_busy) {
        uint32_t diagonal = thread * PER_THREAD;
        place = start + diagonal;
        many = min(stop - place, static_cast<uint32_t>(PER_THREAD));
        SequencePair(tile.keys, start, middle, stop, diagonal).next(tile, keys, entries);
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < PER_THREAD; i++) {
        if (i < many) {
            tile.keys[place + i] = keys[i];
            tile.entries[place + i] = entries[i];
        }
    }
    __syncthreads();
}

/// Entries of a tile that one thread has merged, in key order, and which of them are kept, in one bit each.
template <int PER_THREAD, class Key>
struct ThreadEntries {
    Key keys[PER_THREAD];
    TileEntry entries[PER_THREAD];
    unsigned lives = 0, shadows = 0;  // An entry that is neither is dropped.

    __device__ unsigned keep() const { return lives | shadows; }

    /// Takes this thread's part of a merged tile, in which the newest entry of every key has the mark of all.
    template <bool MARKS, int BLOCK, class Value>
    __device__ ThreadEntries(const MergeTile<MARKS, BLOCK, PER_THREAD, Key, Value>& tile, uint32_t tile_len) {
        uint32_t first = threadIdx.x * PER_THREAD;
#pragma unroll
        for (int i = 0; i < PER_THREAD; i++) {
            uint32_t at = first + i;
            if (at >= tile_len) continue;
            keys[i] = tile.keys[at];
            entries[i] = tile.entries[at];
            if (at > 0 && tile.keys[at - 1] == keys[i]) continue;
            lives |= static_cast<unsigned>(entries[i].is_live()) << i;
            if (MARKS) shadows |= static_cast<unsigned>(entries[i].is_shadow()) << i;
        }
    }

    /// Merges this thread's part of the last two sequences of a tile, of which the second begins at `middle`. The
    /// newest entry of a key decides whether it is live, the oldest whether it is a shadow; one entry is kept if
    /// either holds.
    template <bool MARKS, int BLOCK, class Value>
    __device__ ThreadEntries(const MergeTile<MARKS, BLOCK, PER_THREAD, Key, Value>& tile, uint32_t middle,
                             uint32_t tile_len) {
        uint32_t diagonal = threadIdx.x * PER_THREAD;
        if (diagonal >= tile_len) return;
        uint32_t many = min(tile_len - diagonal, static_cast<uint32_t>(PER_THREAD));
        SequencePair pair(tile.keys, 0, middle, tile_len, diagonal);
        // The preceding key, if there is one.
        Key before_a = pair.a > 0 ? tile.keys[pair.a - 1] : 0, before_b = pair.b > middle ? tile.keys[pair.b - 1] : 0;
        Key before = before_a < before_b ? before_b : before_a;
        pair.next(tile, keys, entries);
        // Older entries of the last key may belong to the next thread.
        bool shadow = false;
        if (MARKS && many == PER_THREAD) {
            Key last = keys[PER_THREAD - 1];
            shadow = entries[PER_THREAD - 1].is_shadow();
            for (; pair.a < middle && tile.keys[pair.a] == last; pair.a++) shadow = tile.entries[pair.a].is_shadow();
            for (; pair.b < tile_len && tile.keys[pair.b] == last; pair.b++) shadow = tile.entries[pair.b].is_shadow();
        }
#pragma unroll
        for (int i = PER_THREAD - 1; i >= 0; i--) {
            if (i >= many) continue;
            if (MARKS && i + 1 < PER_THREAD && (i + 1 == many || keys[min(i + 1, PER_THREAD - 1)] != keys[i])) {
                shadow = entries[i].is_shadow();
            }
            bool is_newest = i > 0 ? keys[max(i - 1, 0)] != keys[i] : diagonal == 0 || before != keys[i];
            bool live = entries[i].is_live();
            if (!is_newest) continue;
            lives |= static_cast<unsigned>(live) << i;
            shadows |= static_cast<unsigned>(shadow) << i;
            if constexpr (MARKS) entries[i] = TileEntry::of(entries[i].number(), live, shadow);
        }
    }

    /// Returns the sum of the marks of the first `many` entries that are kept.
    __device__ int64_t sum_of_first(uint64_t many) const {
        unsigned rest = keep();
        for (; many > 0; many--) rest &= rest - 1;
        unsigned first = keep() & ~rest;
        return __popc(lives & first) - __popc(shadows & first);
    }
};

/// Merges the parts of a tile, and returns this thread's entries after the last round. Of equal keys newer entries
/// come first.
template <bool MARKS, int BLOCK, int PER_THREAD, class Key, class Value>
__device__ ThreadEntries<PER_THREAD, Key> merge(MergeTile<MARKS, BLOCK, PER_THREAD, Key, Value>& tile, int count) {
    int width = 1;
    for (; 2 * width < count; width *= 2) merge_pairs(tile, count, width);
    return ThreadEntries<PER_THREAD, Key>(tile, tile.offset[min(width, count)], tile.offset[count]);
}

/// Combines the values of equal keys in a merged tile, and their marks, to the newest entry of each. Only the thread
/// that has that entry in its part changes it, and reads the older ones, which nobody changes.
template <bool MARKS, int BLOCK, int PER_THREAD, class Key, class Value>
__device__ void combine_equal(MergeTile<MARKS, BLOCK, PER_THREAD, Key, Value>& tile, uint32_t tile_len,
                              const Combiner& combiner) {
    uint32_t first = threadIdx.x * PER_THREAD, end = min(first + PER_THREAD, tile_len);
#pragma unroll 1
    for (uint32_t at = first; at < end; at++) {
        Key key = tile.keys[at];
        bool is_newest = at == 0 || tile.keys[at - 1] != key;
        if (!is_newest || at + 1 == tile_len || tile.keys[at + 1] != key) continue;
        unsigned number = tile.entries[at].number(), mark = tile.entries[at].mark();
        Value value = tile.values[number];
#pragma unroll 1
        for (uint32_t next = at + 1; next < tile_len && tile.keys[next] == key; next++) {
            TileEntry older = tile.entries[next];
            if (Mark::combines(mark) && older.is_live()) value = combiner.combine(tile.values[older.number()], value);
            mark = Mark::over(mark, older.mark());
        }
        tile.entries[at] = TileEntry::of(number, mark);
        tile.values[number] = value;
    }
}

/// Like `merge`, in a dictionary that combines values: every round is one in shared memory, and then the values of equal
/// keys are combined.
template <bool MARKS, int BLOCK, int PER_THREAD, class Key, class Value>
__device__ ThreadEntries<PER_THREAD, Key> merge_combining(MergeTile<MARKS, BLOCK, PER_THREAD, Key, Value>& tile,
                                                          int count, const Combiner& combiner) {
    for (int width = 1; width < count; width *= 2) merge_pairs(tile, count, width);
    combine_equal(tile, tile.offset[count], combiner);
    return ThreadEntries<PER_THREAD, Key>(tile, tile.offset[count]);
}

/// Compacts the keys and entries of a tile that are kept. Returns the counts before this thread's entries and of
/// the whole tile. All threads see the result.
template <bool MARKS, int BLOCK, int PER_THREAD, class Key, class Value>
__device__ void pack(MergeTile<MARKS, BLOCK, PER_THREAD, Key, Value>& tile, const ThreadEntries<PER_THREAD, Key>& mine,
                     Counts<MARKS>& before, Counts<MARKS>& all) {
    Counts<MARKS> counts;
    if constexpr (MARKS) counts = pack_counts(mine.keep(), mine.lives, mine.shadows);
    else counts = __popc(mine.keep());
    cub::BlockScan<Counts<MARKS>, BLOCK>(tile.scan).ExclusiveSum(counts, before, all);
    // The scan has synchronized the block: every thread has read what it merged.
    uint32_t place = static_cast<uint32_t>(totals_of<MARKS, Key>(before).kept);
#pragma unroll
    for (int i = 0; i < PER_THREAD; i++) {
        if (!(mine.keep() >> i & 1)) continue;
        tile.keys[place] = mine.keys[i];
        tile.entries[place] = mine.entries[i];
        place++;
    }
    __syncthreads();
}

}  // namespace gpulsm
