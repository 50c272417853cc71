// Marks: what an entry means, and sums of (live - shadow), which count live keys.
#pragma once

#include "view.cuh"

namespace gpulsm {

/// Whether the bit of the entry at `position` is set in a plane of its sector.
__device__ __forceinline__ bool mark_bit(const uint32_t (&plane)[3], uint64_t position) {
    uint32_t offset = static_cast<uint32_t>(position % SECTOR);
    return __ldg(plane + offset / 32) >> (offset % 32) & 1;
}

/// A regular entry rather than a tombstone.
__device__ __forceinline__ bool is_live(const Sector* marks, uint64_t position) {
    return marks == nullptr || mark_bit(marks[position / SECTOR].live, position);
}

/// When the entry arrived, its key was live in the older runs.
__device__ __forceinline__ bool is_shadow(const Sector* marks, uint64_t position) {
    return marks != nullptr && mark_bit(marks[position / SECTOR].shadow, position);
}

/// The sum of (live - shadow) over the entries before `position`.
__device__ __forceinline__ int64_t sum_before(const Sector* marks, uint64_t position) {
    if (marks == nullptr) return static_cast<int64_t>(position);
    const uint4* halves = reinterpret_cast<const uint4*>(marks + position / SECTOR);
    uint4 low = __ldg(halves), high = __ldg(halves + 1);
    uint32_t live[3] = {low.z, low.w, high.x}, shadow[3] = {high.y, high.z, high.w};
    int64_t sum = static_cast<int64_t>(static_cast<uint64_t>(low.y) << 32 | low.x);
    uint32_t offset = static_cast<uint32_t>(position % SECTOR);
#pragma unroll
    for (uint32_t word = 0; word < 3; word++) {
        uint32_t before = offset > word * 32 ? min(offset - word * 32, 32u) : 0;
        uint32_t mask = static_cast<uint32_t>((1ull << before) - 1);
        sum += __popc(live[word] & mask) - __popc(shadow[word] & mask);
    }
    return sum;
}

}  // namespace gpulsm
