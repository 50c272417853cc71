// The output of queries that find at most one pair each.
#pragma once

#include <gpulsm/queries.cuh>

namespace gpulsm {

/// The pairs found; zeros where a query found none.
template <class Key, class Value>
struct PairsOutput {
    Key* keys;
    Value* values;
    uint8_t* found;

    __device__ void write(uint64_t index, bool is_found, Key key, Value value) const {
        found[index] = is_found;
        keys[index] = key;
        if constexpr (sizeof(Value) > 1) values[index] = value;
    }
};

}  // namespace gpulsm
