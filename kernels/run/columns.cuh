// Keys of several parts as columns: an array for each part.
#pragma once

#include <cstdint>

namespace gpulsm {

/// The most parts of a key.
constexpr int MAX_COLUMNS = 4;

/// The encoding of a part that is some bytes, compared from the first on; those of numbers are `Encoding`'s.
constexpr int BYTES = 3;

/// A column: one part of all keys.
struct KeyColumn {
    void* data;
    int width;  // of a part, in bytes
    int encoding;
    int below;  // how many bits of a packed key are below the part
};

/// The columns of keys, and the bits of the parts that have no column, for they are the same in all keys.
struct KeyColumns {
    KeyColumn at[MAX_COLUMNS];
    uint64_t low, high;
    int count;
};

}  // namespace gpulsm
