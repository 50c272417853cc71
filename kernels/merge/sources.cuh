// The sources of a merge: runs, and a batch, whole or in parts.
#pragma once

#include <gpulsm/queries.cuh>

#include "tuning.cuh"
#include "update/numbers.cuh"

namespace gpulsm {

/// The most parts of a batch: deletes, inserts that assign their values where others combine, and other inserts.
constexpr int MAX_PARTS = 3;

/// The maximum number of sources: all runs and the parts of a batch, or fewer runs and the tiles of a short batch.
constexpr int MAX_SOURCES = MAX_RUNS + MAX_PARTS;

enum class SourceKind : int { Run, Inserts, Deletes, Mixed, Assigned };

/// Who cuts the tiles of a merge: a kernel that runs before it, an earlier call, or each tile itself.
enum class CutBy : int { Kernel, Call, Tiles };

/// Entries with unique keys, in key order.
template <class Key, class Value>
struct Source {
    const Key* keys;
    const Value* values;      // in the order of the keys; of a mixed batch, in the order of numbers
    const Sector* marks;      // of a run; null where every entry is new, or shadows are not needed
    uint8_t* shadows;         // of a batch, one byte each; null where shadows are not needed
    const uint32_t* numbers;  // of the updates of a mixed batch
    const uint64_t* len;      // of a run, the first field of its head
    SourceKind kind;

    /// Returns whether every entry is live and, if `SHADOWS`, none is a shadow: then the marks need not be read.
    template <bool SHADOWS>
    __device__ bool is_plain() const {
        if (kind != SourceKind::Run) return kind == SourceKind::Inserts && shadows == nullptr;
        if (marks == nullptr) return true;
        const Head& head = *reinterpret_cast<const Head*>(len);
        return SHADOWS ? head.sum == static_cast<int64_t>(head.len) : head.tombstones == 0;
    }

    __device__ Value value(uint64_t position) const {
        return value_at(values, kind == SourceKind::Mixed ? numbers[position] & ~DELETE_FLAG : position);
    }

    __device__ bool live(uint64_t position) const {
        if (kind == SourceKind::Run) return is_live(marks, position);
        return kind == SourceKind::Mixed ? (numbers[position] & DELETE_FLAG) == 0 : kind == SourceKind::Inserts;
    }

    __device__ bool shadow(uint64_t position) const {
        if (kind == SourceKind::Run) return is_shadow(marks, position);
        return shadows != nullptr && shadows[position] != 0;
    }

    /// Returns the mark of an entry where values combine. No source is mixed then.
    __device__ unsigned mark(uint64_t position) const {
        if (kind == SourceKind::Run) return merged_mark(marks, position);
        unsigned bits = kind == SourceKind::Deletes    ? 0
                        : kind == SourceKind::Assigned ? Mark::LIVE | Mark::SET
                                                       : Mark::LIVE;
        return bits | (shadow(position) ? Mark::SHADOW : 0);
    }
};

/// Returns a run as a source.
template <class Key, class Value>
__device__ Source<Key, Value> as_source(const RunView<Key, Value>& run) {
    Source<Key, Value> source = {};
    source.keys = run.keys;
    source.values = run.values;
    source.marks = run.marks;
    source.len = reinterpret_cast<const uint64_t*>(run.head);
    source.kind = SourceKind::Run;
    return source;
}

/// All sources, newest first: the tiles of a batch sorted in tiles, then the others.
template <class Key, class Value>
struct Sources {
    Source<Key, Value> at[MAX_SOURCES];  // all but the tiles
    Source<Key, Value> tile;             // the oldest tile; the others follow it in memory
    int tiles;
    int count;  // of all sources, tiles included

    /// Returns a source. Tiles are computed from the first one: kernel parameters are slow to read where threads
    /// read different addresses.
    __device__ Source<Key, Value> operator[](int index) const {
        if (index >= tiles) return at[index - tiles];
        Source<Key, Value> source = tile;
        uint64_t number = tiles - 1 - index, ahead = number * SORTED_TILE;
        source.keys += ahead;
        if (source.kind != SourceKind::Mixed && sizeof(Value) > 1) source.values += ahead;
        if (source.shadows != nullptr) source.shadows += ahead;
        if (source.numbers != nullptr) source.numbers += ahead;
        source.len += number;
        return source;
    }
};

}  // namespace gpulsm
