// Ranges whose sizes are known, and pieces of their answers.
#pragma once

#include "../include/gpulsm/queries.cuh"
#include "tuning.cuh"

namespace gpulsm {

/// Ranges and where their answers go: answer i to `offsets[i]` and on.
template <class Key, class Value>
struct Ranges {
    uint64_t len;
    const uint64_t* offsets;
    const ulonglong2* windows;  // as `count.cu` writes them
    uint64_t room;              // for so many pairs; if they are more, nothing is written
    uint64_t total;             // of how many ranges the offsets are: the last of them is the number of pairs
    uint64_t all;               // the ranges of the call, of which these are some
    Key* keys;
    Value* values;  // null where they are not wanted
    // Of answers that are shared out among blocks: whether there are any (0 at first), and whether any piece does
    // not fit into a tile; and where each piece begins. Null where none are.
    uint32_t* flags;
    uint64_t* parts;

    __device__ ulonglong2 window(uint64_t range, int run) const { return __ldg(windows + run * len + range); }

    __device__ bool is_room() const { return __ldg(offsets + total) <= room; }

    __device__ void write(uint64_t place, Key key, const Value* from, uint64_t position) const {
        keys[place] = key;
        if (sizeof(Value) > 1 && values != nullptr) values[place] = value_at(from, position);
    }
};

/// A stretch of one answer.
struct Piece {
    uint64_t range, part;  // the part-th piece of this range's answer
    uint64_t begin, end;   // which pairs of all answers laid end to end
};

/// Pieces are numbered so that those of range i come from number offsets[i] / size on, counted from the
/// first range's: that needs no counting. The last range whose first number is not greater, and that number.
template <class Key, class Value>
__device__ uint64_t range_of(const Ranges<Key, Value>& ranges, uint64_t number, uint64_t size, uint64_t& first) {
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

/// The part-th piece of a range's answer, of pieces of `size` pairs.
template <class Key, class Value>
__device__ Piece piece_of(const Ranges<Key, Value>& ranges, uint64_t range, uint64_t part, uint64_t size) {
    uint64_t begin = __ldg(ranges.offsets + range) + part * size;
    return {range, part, begin, min(__ldg(ranges.offsets + range + 1), begin + size)};
}

}  // namespace gpulsm
