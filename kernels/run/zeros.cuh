// Memory that a kernel zeroes for those after it.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace gpulsm {

/// Memory to be zeroed, in units of 16 bytes.
struct Zeros {
    uint4* first;
    uint64_t len;

    Zeros(void* first, uint64_t bytes) : first(static_cast<uint4*>(first)), len(bytes / sizeof(uint4)) {}

    /// Zeroes the share of one of `all` threads.
    __device__ __forceinline__ void write(uint64_t thread, uint64_t all) const {
        for (uint64_t i = thread; i < len; i += all) first[i] = make_uint4(0, 0, 0, 0);
    }
};

}  // namespace gpulsm
