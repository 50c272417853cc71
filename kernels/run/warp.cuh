// Exchanges of keys between the lanes of a warp, and reductions over them.
#pragma once

#include <gpulsm/wide.cuh>

namespace gpulsm {

/// Exchanges a key between lanes with `exchange`, in halves if it is wide.
template <class Key, class Exchange>
__device__ __forceinline__ Key exchanged(Key own, Exchange exchange) {
    if constexpr (sizeof(Key) == 16) {
        uint64_t low = exchange(static_cast<uint64_t>(own)), high = exchange(static_cast<uint64_t>(own >> 64));
        return static_cast<Key>(high) << 64 | low;
    } else {
        return exchange(own);
    }
}

/// Returns the key of a lane, counted from the first of its group of `width` lanes.
template <class Key>
__device__ __forceinline__ Key shuffle(unsigned mask, Key own, int lane, int width = 32) {
    return exchanged(own, [&](auto part) { return __shfl_sync(mask, part, lane, width); });
}

/// Returns the key of the lane after this one; in the last lane its own.
template <class Key>
__device__ __forceinline__ Key shuffle_from_next(Key own) {
    return exchanged(own, [](auto part) { return __shfl_down_sync(~0u, part, 1); });
}

/// Returns the key of the lane whose number differs in the bits of `step`.
template <class Key>
__device__ __forceinline__ Key shuffle_across(unsigned mask, Key own, int step) {
    return exchanged(own, [&](auto part) { return __shfl_xor_sync(mask, part, step); });
}

/// Returns, in each lane, the sum over its group of `lanes` neighbours. For whole warps.
template <class Number>
__device__ __forceinline__ Number sum_lanes(Number own, int lanes) {
    for (int step = lanes / 2; step > 0; step /= 2) own += __shfl_xor_sync(~0u, own, step);
    return own;
}

/// Returns the minimum over all lanes. For whole warps.
template <class Number>
__device__ __forceinline__ Number min_lanes(Number own) {
    for (int step = 16; step > 0; step /= 2) {
        Number other = shuffle_across(~0u, own, step);
        own = other < own ? other : own;
    }
    return own;
}

}  // namespace gpulsm
