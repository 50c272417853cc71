// Marks: what an entry means, and sums of (live - shadow), which count live keys.
#pragma once

#include "view.cuh"

namespace gpulsm {

/// Words of a plane in a sector.
constexpr uint32_t SECTOR_WORDS = SECTOR / 32;

/// Which word of a plane, counted from the first sector on, has the bit of the entry at `position`.
/// Less than 2^32 as long as a run has less than 2^37 entries, which no GPU has the memory for: dividing
/// it is much cheaper than dividing a position.
__device__ __forceinline__ uint32_t mark_word(uint64_t position) { return static_cast<uint32_t>(position / 32); }

/// Which sector has the marks of the entry at `position`.
__device__ __forceinline__ uint32_t sector_of(uint64_t position) { return mark_word(position) / SECTOR_WORDS; }

/// Whether the bit of the entry at `position` is set in a plane of its sector.
__device__ __forceinline__ bool mark_bit(const uint32_t (&plane)[SECTOR_WORDS], uint64_t position) {
    return __ldg(plane + mark_word(position) % SECTOR_WORDS) >> (position % 32) & 1;
}

/// A regular entry rather than a tombstone.
__device__ __forceinline__ bool is_live(const Sector* marks, uint64_t position) {
    return marks == nullptr || mark_bit(marks[sector_of(position)].live, position);
}

/// When the entry arrived, its key was live in the older runs.
__device__ __forceinline__ bool is_shadow(const Sector* marks, uint64_t position) {
    return marks != nullptr && mark_bit(marks[sector_of(position)].shadow, position);
}

/// The sum of (live - shadow) over the entries before `position`.
__device__ __forceinline__ int64_t sum_before(const Sector* marks, uint64_t position) {
    if (marks == nullptr) return static_cast<int64_t>(position);
    uint32_t sector = sector_of(position);
    const uint4* halves = reinterpret_cast<const uint4*>(marks + sector);
    uint4 low = __ldg(halves), high = __ldg(halves + 1);
    uint32_t live[3] = {low.z, low.w, high.x}, shadow[3] = {high.y, high.z, high.w};
    int64_t sum = static_cast<int64_t>(static_cast<uint64_t>(low.y) << 32 | low.x);
    uint32_t offset = static_cast<uint32_t>(position - static_cast<uint64_t>(sector) * SECTOR);
#pragma unroll
    for (uint32_t word = 0; word < 3; word++) {
        uint32_t before = offset > word * 32 ? min(offset - word * 32, 32u) : 0;
        uint32_t mask = static_cast<uint32_t>((1ull << before) - 1);
        sum += __popc(live[word] & mask) - __popc(shadow[word] & mask);
    }
    return sum;
}

}  // namespace gpulsm
