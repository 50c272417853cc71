// Keys whose combined values are looked up.
#pragma once

#include <cstdint>

namespace gpulsm {

/// Keys whose combined values are looked up.
template <class Key, class Value>
struct CombineQueries {
    const Key* keys;
    uint64_t len;
    const uint64_t* count;  // The number of keys, where only the device knows it; none are looked up if it exceeds `len`.
    Value* values;
    uint8_t* found;    // Whether the dictionary holds each key. Null where it holds all of them.
    bool are_answers;  // The keys are those of pairs that another kernel found, or not: `found` is there already.

    __device__ uint64_t number() const {
        if (count == nullptr) return len;
        uint64_t there = *count;
        return there <= len ? there : 0;
    }
};

}  // namespace gpulsm
