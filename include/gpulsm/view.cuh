// A dictionary as kernels see it: plain pointers, passed to a kernel by value.
//
// A view comes from a snapshot and is valid for as long as that snapshot. Keys are unsigned integers; `keys.cuh`
// maps signed and floating-point keys to them. Kernels should take a view as a `const __grid_constant__` parameter.
#pragma once

#include <cstdint>

#include "combine.cuh"
#include "marks.cuh"

namespace gpulsm {

/// The maximum number of runs in a dictionary: about 30 levels, each twice as large as the one before, and runs
/// whose merge is deferred.
constexpr int MAX_RUNS = 64;

/// Keys per node; each node has a fence, its last key.
constexpr int NODE = 16;

/// The value of a set's entries.
struct Nothing {};

/// A run's length and sums. A merge drops entries, so the device knows them before the host does.
struct Head {
    uint64_t len;
    int64_t sum;  // of (live - shadow) over all entries
    uint64_t tombstones;
};

/// A run: an immutable sorted array of entries with unique keys.
template <class Key, class Value>
struct RunView {
    const Key* keys;      // sorted, padded to whole nodes with the largest key
    const Value* values;  // in the order of the keys
    const Sector* marks;  // null where every entry is new, or marks are computed later: see `combines_with_older`
    const Key* inner;     // the last key of every node of keys, padded to whole nodes
    const Key* outer;     // the last key of every node of inner fences
    const Head* head;
};

template <class T>
struct TypeIdentity {
    using Type = T;
};

/// The type itself, which is not deduced from an argument: a key may be written as any number.
template <class T>
using NotDeduced = typename TypeIdentity<T>::Type;

/// All runs, newest first: the first run that contains a key decides whether it is live and, unless values combine, its
/// value.
template <class Key, class Value>
struct View {
    RunView<Key, Value> runs[MAX_RUNS];
    uint64_t count;
    Combiner combiner;
};

}  // namespace gpulsm
