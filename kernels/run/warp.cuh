// Reductions over the lanes of a warp.
#pragma once

#include <cstdint>

namespace gpulsm {

/// Returns, in each lane, the sum over its group of `lanes` neighbours. For whole warps.
template <class Number>
__device__ __forceinline__ Number sum_lanes(Number own, int lanes) {
    for (int step = lanes / 2; step > 0; step /= 2) own += __shfl_xor_sync(~0u, own, step);
    return own;
}

/// Returns the minimum over all lanes. For whole warps.
template <class Number>
__device__ __forceinline__ Number min_lanes(Number own) {
    for (int step = 16; step > 0; step /= 2) own = min(own, __shfl_xor_sync(~0u, own, step));
    return own;
}

}  // namespace gpulsm
