// Several threads for a key that is looked for in several runs, where there are few keys: each asks some of
// the runs.
#pragma once

#include <type_traits>

#include "tuning.cuh"

namespace gpulsm {

/// What `lanes` neighbours have, together, in each of them. For whole warps.
template <class Number>
__device__ __forceinline__ Number add_up_lanes(Number own, int lanes) {
    for (int step = lanes / 2; step > 0; step /= 2) own += __shfl_xor_sync(~0u, own, step);
    return own;
}

/// Calls `body` with how many threads a key gets, as a constant: as many as there are searches for it, as
/// long as all can run at once.
template <class Body>
int with_lanes(uint64_t keys, uint64_t searches, Body body, uint64_t most_threads = LANE_THREADS) {
    uint64_t lanes = 1;
    while (lanes < searches && lanes < 16 && keys * lanes < most_threads) lanes *= 2;
    switch (lanes) {
        case 1: return body(std::integral_constant<int, 1>());
        case 2: return body(std::integral_constant<int, 2>());
        case 4: return body(std::integral_constant<int, 4>());
        case 8: return body(std::integral_constant<int, 8>());
        default: return body(std::integral_constant<int, 16>());
    }
}

}  // namespace gpulsm
