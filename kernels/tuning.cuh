// Block sizes and other measured constants, and nothing else.
#pragma once

#include <cstdint>

namespace gpulsm {

/// Threads per block.
constexpr int THREADS = 256;
constexpr int WARPS = THREADS / 32;

/// Entries of a tile per thread. Odd, so that threads that read adjacent sequences of shared memory access
/// different banks. Few entries are spread over more blocks; of narrow entries a thread takes more, of the widest
/// fewer.
constexpr int ITEMS = 7;
constexpr int LESS_ITEMS = 5;
constexpr int MORE_ITEMS = 9;
constexpr int MOST_ITEMS = 15;
constexpr int FEW_ITEMS = 3;
constexpr int FEW_ENTRIES = 1 << 18;

/// Threads that sort a tile of a short batch, and updates per thread.
constexpr int SORT_THREADS = 512;
constexpr int SORT_ITEMS = 4;
constexpr int SORTED_TILE = SORT_THREADS * SORT_ITEMS;

/// Longer batches are cut into buckets at splitters: 2^`FEW_BUCKET_BITS` buckets for up to `FEW_CUT` keys, and twice as many
/// where buckets would not fit, for up to `MANY_CUT`; each of at most `CUT_TILES` tiles of the batch by itself. For each bucket
/// there are as many keys in the sample that splitters come from. A thread sorts up to `SPLIT_ITEMS` keys of a bucket: as many
/// as fit in registers, and in the shared memory that a block may have on every GPU.
constexpr int FEW_BUCKET_BITS = 8;
constexpr uint64_t FEW_CUT = 1 << 18;
template <class Key>
constexpr uint64_t MANY_CUT = (sizeof(Key) <= 8 ? 4 : 2) * FEW_CUT;
constexpr uint32_t CUT_TILES = 128;
template <class Key>
constexpr int SAMPLES_PER_BUCKET = sizeof(Key) <= 8 ? 10 : 8;
template <class Key>
constexpr int SPLIT_ITEMS = sizeof(Key) <= 8 ? 10 : 8;
constexpr int LEAST_SHARED = 99 << 10;

/// Splitters of another run are taken if no bucket has more than `MOST_CHECKS` keys of a sample of `CHECKS_PER_BUCKET` times
/// as many as there are buckets.
constexpr int CHECKS_PER_BUCKET = 4;
constexpr uint32_t MOST_CHECKS = 13;

/// Loads of 16 bytes per thread that searches for duplicates.
constexpr int FENCE_ITEMS = 8;

/// Tiles of a merge are cut this many entries shorter than they may be, so that cuts need not be exact and are
/// found sooner. At least `MAX_SOURCES`.
constexpr int SLACK = 128;

/// With fewer tiles than this a block searches for each cut, with more a warp. Tiles of short merges of up to
/// `MAX_CUT_SOURCES` sources are cut by the blocks that merge them.
constexpr int FEW_CUTS = 1024;
constexpr int MAX_CUT_SOURCES = 24;

/// Threads that search one source of a merge for a cut.
constexpr int CUT_LANES = 8;

/// Passes in which a warp narrows down where a pivot is, each to a 32nd part; of more sources than this, keys are first
/// thought to be spread alike.
constexpr int PIVOT_PASSES = 2;
constexpr int FEW_SOURCES = 16;

/// Windows longer than this are first searched near the interpolated position.
constexpr int FAR = 1024;

/// While fewer threads than this search several runs, each key gets more of them.
constexpr int LANE_THREADS = 1 << 18;

/// The same limit for threads that find shadows.
constexpr int SHADOW_THREADS = 1 << 17;

/// Blocks per multiprocessor that search by warps, and bytes per block for the top fences.
template <class Key>
constexpr int INDEX_BLOCKS = sizeof(Key) == 4 ? 6 : 4;
constexpr int INDEX_BYTES = 1 << 14;

/// The same for blocks that search for neighbours, and for those that rank, which take more registers.
constexpr int NEAREST_BLOCKS = 4;
template <class Key>
constexpr int RANK_BLOCKS = sizeof(Key) == 4 ? 5 : sizeof(Key) == 8 ? 4 : 3;

/// Blocks per multiprocessor that look up few keys: enough to process 2^16 keys at once.
template <class Key>
constexpr int FEW_BLOCKS = sizeof(Key) == 4 ? 8 : 5;

/// Threads that order keys by buckets; keys and answers per thread of those that find the buckets, that order keys, and
/// that bring answers back; and blocks per multiprocessor, of the first and of the others.
constexpr int BUCKET_THREADS = 384;
constexpr int FIND_ITEMS = 4;
template <class Key>
constexpr int BUCKET_ITEMS = sizeof(Key) <= 8 ? 10 : 5;
constexpr int RESTORE_ITEMS = 10;
template <class Key>
constexpr int FIND_BLOCKS = sizeof(Key) <= 8 ? 5 : 3;
constexpr int BUCKET_BLOCKS = 3;

/// The most buckets, as a power of two: what shared memory has room for.
constexpr int MAX_BUCKET_BITS = 11;

/// Ranges of this many pairs on average are long: their answers are written by a warp each over one run, and by a
/// block each over several; shorter ones by `COPY_LANES` threads and by one thread.
constexpr int LONG_RANGE = 64;
constexpr int COPY_LANES = 8;

/// Pairs per piece of an answer over one run.
constexpr int COPY_PIECE = 4096;

/// Threads that merge a long range, entries of a tile per thread, and blocks per multiprocessor; then the same for
/// pieces of very long ones, which `THREADS` threads merge.
constexpr int RANGE_THREADS = 128;
constexpr int range_items(int width) { return width <= 8 ? 9 : width <= 16 ? 7 : width <= 24 ? 5 : 3; }
constexpr int range_blocks(int key_width, int value_width) {
    return key_width > 8 ? 4 : key_width + value_width <= 8 ? 7 : 5;
}
constexpr int PIECE_SLACK = 300;  // pairs fewer than fit in a tile, so that a few stale entries fit too
constexpr int piece_blocks(int width) { return width <= 8 ? 5 : width <= 16 ? 3 : 2; }

/// Threads that combine the values of a range over one run, up to this many pairs; a warp combines more.
constexpr int FOLD_LANES = 8;
constexpr int FOLD_SHORT = 256;

/// Entries of a range over several runs that one thread combines; a block combines more.
constexpr int FOLD_ENTRIES = 64;

/// Blocks per multiprocessor that combine ranges without merging, by a warp each.
constexpr int FLAT_BLOCKS = 4;

/// Ranges of more pairs than this are combined by several blocks, in pieces of at least as many pairs; the most pieces
/// of a range, and blocks per multiprocessor.
constexpr int HUGE_PIECE = 1 << 13;
constexpr uint64_t MAX_PIECES = 1 << 12;
constexpr int FOLD_BLOCKS = 4;

/// A short range is mostly dead if it has more stale entries than this, and than four per pair besides.
constexpr int FEW_STALE = 256;

/// Dead keys that a thread passes, and tiles without a live key that a block merges, before it searches for the end
/// of the dead stretch; and the first stride of that search.
constexpr int DEAD_KEYS = 32;
constexpr int DEAD_TILES = 8;
constexpr int DEAD_STRIDE = 64;
constexpr int DEAD_BLOCKS = 3;  // per multiprocessor

/// Entries per thread where a batch is ordered: as many as fit in registers.
constexpr int dedup_items(int key_width, int value_width) { return key_width + value_width <= 8 ? MOST_ITEMS : ITEMS; }

/// Entries per thread of a merge: as many as fit in registers and shared memory.
constexpr int merge_items(int key_width, int value_width) {
    if (key_width == 4) return value_width <= 8 ? MORE_ITEMS : ITEMS;
    int width = key_width + value_width;
    return width <= 16 ? ITEMS : width <= 24 ? LESS_ITEMS : FEW_ITEMS;
}

/// Blocks per multiprocessor of a merge, such that no register spills. More tiles than four at a time are not few.
constexpr int merge_blocks(bool combines, bool marks, int per_thread, int width) {
    return width <= 8 && !combines ? (marks || per_thread == FEW_ITEMS ? 4 : 5) : width <= 16 ? 3 : 2;
}

}  // namespace gpulsm
