// A dictionary as kernels see it: plain pointers, to be passed to a kernel by value.
//
// A view is got from a snapshot and holds for as long as that snapshot does. Keys are unsigned
// integers; `keys.cuh` maps signed and floating-point keys to them. A kernel takes it best as a
// `const __grid_constant__` parameter.
#pragma once

#include <cstdint>

namespace gpulsm {

/// The most runs a dictionary can have: those of about 30 levels, each twice as large as the one before, and
/// those that wait to be merged.
constexpr int MAX_RUNS = 64;

/// Keys in a node; a fence stands at the end of each.
constexpr int NODE = 16;

/// Entries that a sector of marks answers for.
constexpr int SECTOR = 96;

/// The value of a set's entries.
struct Nothing {};

/// Marks of 96 entries in 32 bytes: a bit each for "live" and for "shadows an older live entry".
struct alignas(32) Sector {
    int64_t sum;  // of (live - shadow) over all entries before this sector
    uint32_t live[3];
    uint32_t shadow[3];
};

/// What a run knows of itself. Merging drops entries, so these are known here before the host
/// knows them.
struct Head {
    uint64_t len;
    int64_t sum;  // of (live - shadow) over all entries
    uint64_t tombstones;
};

/// An immutable sorted array of entries with unique keys.
template <class Key, class Value>
struct Run {
    const Key* keys;      // sorted, filled up to whole nodes with the largest key
    const Value* values;  // in step with keys
    const Sector* marks;  // null where every entry is new: live, shadowing nothing
    const Key* inner;     // the last key of every node of keys, filled up to whole nodes
    const Key* outer;     // the last key of every node of inner fences
    const Head* head;
};

/// The type itself, where it must not be deduced: a key may be written as any number.
template <class T>
struct Same {
    using Type = T;
};

/// All runs, newest first: for one key the first run that has it decides.
template <class Key, class Value>
struct View {
    Run<Key, Value> runs[MAX_RUNS];
    uint64_t count;
};

}  // namespace gpulsm
