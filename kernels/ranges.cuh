// Ranges whose sizes are known, and pieces of their answers.
#pragma once

#include "dead.cuh"

namespace gpulsm {

/// What is known of all ranges of a call: whether any answers are shared out among blocks, whether any piece of one does
/// not fit into a tile, and whether any has mostly dead entries.
enum Flag : uint32_t { ARE_PARTS, ARE_WIDE, ARE_DEAD };

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
    // What blocks share, over several runs: flags, and, if `for_long` says so, stretches without a live key, and where
    // each piece of an answer begins that is shared out among blocks. At first as many are zeros as
    // `gpulsm_range_words` says.
    uint32_t* flags;
    uint64_t for_long;

    static constexpr uint64_t FLAG_WORDS = 2, DEAD_WORDS = sizeof(DeadStretches<uint64_t>) / sizeof(uint64_t);

    __device__ DeadStretches<Key>& dead() const {
        return *reinterpret_cast<DeadStretches<Key>*>(reinterpret_cast<uint64_t*>(flags) + FLAG_WORDS);
    }

    /// Where piece `number` begins in each of the runs, then in the answers, and of which range it is.
    __device__ uint64_t* part(uint64_t number, uint64_t runs) const {
        return reinterpret_cast<uint64_t*>(flags) + FLAG_WORDS + DEAD_WORDS + number * (runs + 2);
    }

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
