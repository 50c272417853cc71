// Sizes that were measured, and nothing else.
#pragma once

namespace gpulsm {

/// Threads of a block.
constexpr int THREADS = 256;
constexpr int WARPS = THREADS / 32;

/// Entries of a tile, for each thread. Odd, so that threads which walk through neighbouring stretches
/// of shared memory do so on different banks. Few entries are spread over more blocks; of narrow ones
/// a thread sees to more, of the widest to fewer.
constexpr int ITEMS = 7;
constexpr int LESS_ITEMS = 5;
constexpr int MORE_ITEMS = 9;
constexpr int MOST_ITEMS = 15;
constexpr int FEW_ITEMS = 3;
constexpr int FEW_ENTRIES = 1 << 18;

/// Threads that sort a tile of a short batch, and updates for each.
constexpr int SORT_THREADS = 512;
constexpr int SORT_ITEMS = 4;
constexpr int SORTED_TILE = SORT_THREADS * SORT_ITEMS;

/// Keys for each thread that looks for doubles.
constexpr int FENCE_ITEMS = 8;

/// Tiles of a merge are cut so that they have this many fewer entries than they may: the cuts need
/// not be exact then, and are found sooner. At least as many as there can be sources.
constexpr int SLACK = 128;

/// Of fewer tiles than this, a block searches for each cut; of more, a warp.
constexpr int FEW_CUTS = 1024;

/// Threads that search one source of a merge for a cut.
constexpr int CUT_LANES = 8;

/// Longer stretches than this are first searched near where the key would be if all were spread evenly.
constexpr int FAR = 1024;

/// While fewer threads than this look for keys in several runs, each key gets more of them.
constexpr int LANE_THREADS = 1 << 18;

/// The same of those that look for shadows.
constexpr int SHADOW_THREADS = 1 << 17;

/// Blocks of a multiprocessor that search by warps, and bytes of each for the tops of fences.
template <class Key>
constexpr int INDEX_BLOCKS = sizeof(Key) == 4 ? 6 : 4;
constexpr int INDEX_BYTES = 1 << 14;

/// The same of those that look for neighbours, and of those that rank, which take more registers.
constexpr int NEAREST_BLOCKS = 4;
template <class Key>
constexpr int RANK_BLOCKS = sizeof(Key) == 4 ? 5 : 4;

/// Blocks of a multiprocessor that look few keys up: as many as hold all of 2^16 keys at once.
template <class Key>
constexpr int FEW_BLOCKS = sizeof(Key) == 4 ? 8 : 5;

/// Ranges of so many pairs on average are long: their answers are written by a warp each over one run, by a
/// block over several; of shorter ones by a few threads, and by one.
constexpr int LONG_RANGE = 64;
constexpr int COPY_LANES = 8;

/// Over one run, answers are written in pieces of this many pairs.
constexpr int COPY_PIECE = 4096;

/// Threads that merge long ranges, entries of a tile for each, and blocks of a multiprocessor; and those that
/// merge pieces of very long ones, by `THREADS`.
constexpr int RANGE_THREADS = 128;
constexpr int range_items(int width) { return width <= 8 ? 9 : width <= 16 ? 7 : 5; }
constexpr int range_blocks(int width) { return width <= 8 ? 7 : 5; }
constexpr int PART_SLACK = 300;  // A piece has so many fewer pairs than a tile: with a few stale entries it fits.
constexpr int part_blocks(int width) { return width <= 8 ? 5 : width <= 16 ? 3 : 2; }

/// A short range with more stale entries than this, besides four for each pair, is looked through for dead keys.
constexpr int FEW_STALE = 256;

/// Dead keys that a thread walks over, and tiles without a live key that a block merges, before the end of their
/// stretch is searched for; and how far ahead of it a search looks first.
constexpr int DEAD_KEYS = 32;
constexpr int DEAD_TILES = 8;
constexpr int DEAD_STRIDE = 64;
constexpr int DEAD_BLOCKS = 3;  // of a multiprocessor

}  // namespace gpulsm
