// Ranges of known sizes, their output, and pieces of their answers.
#pragma once

#include "query/dead.cuh"

namespace gpulsm {

/// Flags about all ranges of a call: whether any answer is divided among blocks, any piece does not fit in a tile,
/// any range or piece is mostly dead.
enum Flag : uint32_t { HAS_PIECES, HAS_OVERSIZED, HAS_DEAD };

/// Ranges and their output: the answer of range i begins at `offsets[i]`.
template <class Key, class Value>
struct RangeOutput {
    uint64_t len;
    const uint64_t* offsets;
    const ulonglong2* windows;  // as `count.cu` writes them
    uint64_t room;              // in pairs; if there are more, nothing is written
    uint64_t total;             // how many ranges have offsets; the last offset is the number of pairs
    uint64_t all;               // ranges of the call, of which these are a part
    Key* keys;
    Value* values;  // null where values are not wanted
    // Memory that blocks share, over several runs: flags and, with `for_long`, dead stretches and a row for each
    // piece of a divided answer. `gpulsm_range_words` tells its size and how much of it must be zeroed.
    uint32_t* flags;
    uint64_t for_long;

    static constexpr uint64_t FLAG_WORDS = 2, DEAD_WORDS = sizeof(DeadStretches<WideKey>) / sizeof(uint64_t);

    __device__ DeadStretches<Key>& dead() const {
        return *reinterpret_cast<DeadStretches<Key>*>(reinterpret_cast<uint64_t*>(flags) + FLAG_WORDS);
    }

    /// Returns the row of a piece: where it begins in each run, then in the output, and its range.
    __device__ uint64_t* piece_row(uint64_t number, uint64_t runs) const {
        return reinterpret_cast<uint64_t*>(flags) + FLAG_WORDS + DEAD_WORDS + number * (runs + 2);
    }

    __device__ ulonglong2 window(uint64_t range, int run) const { return __ldg(windows + run * len + range); }

    __device__ bool has_room() const { return __ldg(offsets + total) <= room; }

    __device__ void write(uint64_t place, Key key, const Value* from, uint64_t position) const {
        keys[place] = key;
        if (sizeof(Value) > 1 && values != nullptr) values[place] = value_at(from, position);
    }
};

/// A contiguous piece of one answer.
struct Piece {
    uint64_t range, index;  // the index-th piece of this range's answer
    uint64_t begin, end;    // positions in the output
};

/// Returns the range of a piece, and the number of that range's first piece. The pieces of range i are numbered
/// from `offsets[i] / size`, relative to the first range: this takes no counting. The range is the last one whose
/// first number is not greater.
template <class Key, class Value>
__device__ uint64_t range_of(const RangeOutput<Key, Value>& ranges, uint64_t number, uint64_t size, uint64_t& first) {
    uint64_t start = __ldg(ranges.offsets) / size, range = 0;
    for (uint64_t len = ranges.len; len > 1;) {
        uint64_t half = len / 2, middle = range + half;
        bool up = __ldg(ranges.offsets + middle) / size - start <= number;
        range = up ? middle : range;
        len = up ? len - half : half;
    }
    first = __ldg(ranges.offsets + range) / size - start;
    return range;
}

/// Returns the index-th piece of a range's answer, of pieces of `size` pairs.
template <class Key, class Value>
__device__ Piece piece_of(const RangeOutput<Key, Value>& ranges, uint64_t range, uint64_t index, uint64_t size) {
    uint64_t begin = __ldg(ranges.offsets + range) + index * size;
    return {range, index, begin, min(__ldg(ranges.offsets + range + 1), begin + size)};
}

}  // namespace gpulsm
