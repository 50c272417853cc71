// What is merged: runs, and a batch, whole or in two halves.
#pragma once

#include "../include/gpulsm/queries.cuh"
#include "tuning.cuh"

namespace gpulsm {

/// Runs, and the two halves of a batch; or fewer runs, and the tiles of a short batch.
constexpr int MAX_SOURCES = MAX_RUNS + 2;

/// Added to the number that an update has in its batch, if it is a delete.
constexpr uint32_t DELETES = 1u << 31;

enum class Kind : int { Run, Inserts, Deletes, Mixed };

/// Entries with unique keys, in key order.
template <class Key, class Value>
struct Source {
    const Key* keys;
    const Value* values;      // in step with keys; a mixed batch's in the order of numbers
    const Sector* marks;      // a run's; null where every entry is new, or nobody asks for shadows
    uint8_t* shadows;         // a batch's, a byte each; null where nobody asks for them
    const uint32_t* numbers;  // a mixed batch's, of its updates
    const uint64_t* len;      // a run's: its head
    Kind kind;

    /// Whether every entry is live and, if shadows matter, none is one: then nobody need look at their marks.
    template <bool SHADOWS>
    __device__ bool is_plain() const {
        if (kind != Kind::Run) return kind == Kind::Inserts && shadows == nullptr;
        if (marks == nullptr) return true;
        const Head& head = *reinterpret_cast<const Head*>(len);
        return SHADOWS ? head.sum == static_cast<int64_t>(head.len) : head.tombstones == 0;
    }

    __device__ Value value(uint64_t position) const {
        return value_at(values, kind == Kind::Mixed ? numbers[position] & ~DELETES : position);
    }

    __device__ bool live(uint64_t position) const {
        if (kind == Kind::Run) return is_live(marks, position);
        return kind == Kind::Mixed ? (numbers[position] & DELETES) == 0 : kind == Kind::Inserts;
    }

    __device__ bool shadow(uint64_t position) const {
        if (kind == Kind::Run) return is_shadow(marks, position);
        return shadows != nullptr && shadows[position] != 0;
    }
};

/// A run, to be merged.
template <class Key, class Value>
__device__ Source<Key, Value> as_source(const Run<Key, Value>& run) {
    Source<Key, Value> source = {};
    source.keys = run.keys;
    source.values = run.values;
    source.marks = run.marks;
    source.len = reinterpret_cast<const uint64_t*>(run.head);
    source.kind = Kind::Run;
    return source;
}

/// Newest first: the tiles of a short batch, if it is in tiles, then all others.
template <class Key, class Value>
struct Sources {
    Source<Key, Value> at[MAX_SOURCES];  // all but the tiles
    Source<Key, Value> tile;             // the oldest; the others lie behind it
    int tiles;
    int count;  // of all, tiles too

    /// Tiles are many and alike. What a kernel is called with is dear to read where threads read different
    /// places of it, so they are not spelled out there.
    __device__ Source<Key, Value> operator[](int index) const {
        if (index >= tiles) return at[index - tiles];
        Source<Key, Value> source = tile;
        uint64_t number = tiles - 1 - index, ahead = number * SORTED_TILE;
        source.keys += ahead;
        if (source.kind != Kind::Mixed && sizeof(Value) > 1) source.values += ahead;
        if (source.shadows != nullptr) source.shadows += ahead;
        if (source.numbers != nullptr) source.numbers += ahead;
        source.len += number;
        return source;
    }
};

}  // namespace gpulsm
