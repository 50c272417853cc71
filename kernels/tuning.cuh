// Sizes that were measured, and nothing else.
#pragma once

namespace gpulsm {

/// Threads of a block, in every kernel.
constexpr int THREADS = 256;

/// Entries of a tile: what one block sorts out at a time.
constexpr int ITEMS = 8;
constexpr int TILE = THREADS * ITEMS;

/// Tiles of a merge are cut so that they have this many fewer entries than they may: the cuts need
/// not be exact then, and are found sooner. At least as many as there can be sources.
constexpr int SLACK = 128;

/// Up to this many keys, several threads look for the shadows of each: one for every older run.
constexpr int FEW_KEYS = 1 << 17;
constexpr int SHADOW_LANES = 8;

/// Answers to ranges are written in pieces of this many pairs: by a few threads each over one run,
/// by one thread each over several.
constexpr int COPY_PIECE = 4096;
constexpr int COPY_LANES = 8;
constexpr int MERGE_PIECE = 64;

}  // namespace gpulsm
