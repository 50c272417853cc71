// Marks: what an entry means, in two bits, and sums of (live - shadow), which count live keys.
//
// The only file on the CUDA side that knows the codes of marks and how a run stores them. `src/mark.rs` has the
// same codes for Rust; `src/cuda/abi.rs` checks that they agree.
#pragma once

#include <cstdint>

namespace gpulsm {

/// The codes of marks. For each key, (live - shadow) over all of its entries is 1 if the dictionary holds the key and 0
/// if it does not.
///
/// A run stores two bits: new (live), replacement (live and shadow), and tombstone (shadow). In a dictionary that
/// combines values, a replacement combines with what is older, and an entry with neither bit is a restart: live, but
/// what is older no longer counts. While entries are merged, restarts and other values that were set have all of the
/// bits that apply, and a third one.
struct Mark {
    static constexpr unsigned BITS = 3;
    static constexpr unsigned LIVE_BIT = 0, SHADOW_BIT = 1, SET_BIT = 2;

    static constexpr unsigned LIVE = 1u << LIVE_BIT;      // A tombstone lacks it.
    static constexpr unsigned SHADOW = 1u << SHADOW_BIT;  // The key was live in the older runs when the entry arrived.
    static constexpr unsigned SET = 1u << SET_BIT;        // The value counts alone. Only while entries are merged.
    static constexpr unsigned RESTART = LIVE | SHADOW | SET;

    /// Returns whether an entry that is being merged combines with an older one.
    __device__ static bool combines(unsigned mark) { return (mark & (LIVE | SET)) == LIVE; }

    /// Returns the mark of two entries with one key, in a dictionary that combines values: the newer one's, with the
    /// shadow of the older one. If the newer one combines with one that was set, or deleted, the result is set.
    __device__ static unsigned over(unsigned newer, unsigned older) {
        bool is_set = combines(newer) && ((older & SET) != 0 || (older & LIVE) == 0);
        return (newer & (LIVE | SET)) | (older & SHADOW) | (is_set ? SET : 0);
    }
};

/// Entries per sector of marks.
constexpr int SECTOR = 96;

/// Words per bit plane of a sector.
constexpr uint32_t SECTOR_WORDS = SECTOR / 32;

/// The marks of 96 entries in 32 bytes: one plane of live bits, one plane of shadow bits.
struct alignas(32) Sector {
    int64_t sum;  // of (live - shadow) over all entries before this sector
    uint32_t live[SECTOR_WORDS];
    uint32_t shadow[SECTOR_WORDS];
};

/// Returns the index of the word, counted over all sectors of a plane, that holds the bit of the entry at `position`.
/// It fits in 32 bits as long as a run has fewer than 2^37 entries, more than any GPU has memory for. A 32-bit
/// division is much cheaper than a 64-bit one.
__device__ __forceinline__ uint32_t mark_word(uint64_t position) { return static_cast<uint32_t>(position / 32); }

/// Returns the index of the sector that holds the marks of the entry at `position`.
__device__ __forceinline__ uint32_t sector_of(uint64_t position) { return mark_word(position) / SECTOR_WORDS; }

/// Returns the bit of the entry at `position` in a plane of its sector.
__device__ __forceinline__ bool mark_bit(const uint32_t (&plane)[SECTOR_WORDS], uint64_t position) {
    return __ldg(plane + mark_word(position) % SECTOR_WORDS) >> (position % 32) & 1;
}

/// Returns whether the entry is live rather than a tombstone, the only one with a shadow bit and no live bit. Without
/// marks every entry is live.
__device__ __forceinline__ bool is_live(const Sector* marks, uint64_t position) {
    if (marks == nullptr) return true;
    const Sector& sector = marks[sector_of(position)];
    uint32_t word = mark_word(position) % SECTOR_WORDS;
    return (__ldg(sector.live + word) | ~__ldg(sector.shadow + word)) >> (position % 32) & 1;
}

/// Returns the shadow bit of the entry: whether it is a replacement or a tombstone.
__device__ __forceinline__ bool is_shadow(const Sector* marks, uint64_t position) {
    return marks != nullptr && mark_bit(marks[sector_of(position)].shadow, position);
}

/// Returns what the entry adds to the sums: (live - shadow).
__device__ __forceinline__ int sum_at(const Sector* marks, uint64_t position) {
    if (marks == nullptr) return 1;
    const Sector& sector = marks[sector_of(position)];
    return mark_bit(sector.live, position) - mark_bit(sector.shadow, position);
}

/// Returns whether a live entry of a dictionary that combines values combines with what older runs hold, if they hold
/// its key. Without marks this is not known, and assumed: it is so where they are found later, and nothing is older than
/// a run that needs none.
__device__ __forceinline__ bool combines_with_older(const Sector* marks, uint64_t position) {
    return marks == nullptr || is_shadow(marks, position);
}

/// Returns the mark of a run's entry as it is while entries are merged.
__device__ __forceinline__ unsigned merged_mark(const Sector* marks, uint64_t position) {
    if (marks == nullptr) return Mark::LIVE;
    const Sector& sector = marks[sector_of(position)];
    unsigned stored = mark_bit(sector.live, position) << Mark::LIVE_BIT |
                      mark_bit(sector.shadow, position) << Mark::SHADOW_BIT;
    return stored == 0 ? Mark::RESTART : stored;
}

/// Returns the sum of (live - shadow) over the entries before `position`.
__device__ __forceinline__ int64_t sum_before(const Sector* marks, uint64_t position) {
    if (marks == nullptr) return static_cast<int64_t>(position);
    uint32_t sector = sector_of(position);
    // A sector is read in two loads of 16 bytes: the sum and half of the words, then the other half.
    const uint4* halves = reinterpret_cast<const uint4*>(marks + sector);
    uint4 low = __ldg(halves), high = __ldg(halves + 1);
    uint32_t live[SECTOR_WORDS] = {low.z, low.w, high.x}, shadow[SECTOR_WORDS] = {high.y, high.z, high.w};
    int64_t sum = static_cast<int64_t>(static_cast<uint64_t>(low.y) << 32 | low.x);
    uint32_t offset = static_cast<uint32_t>(position - static_cast<uint64_t>(sector) * SECTOR);
#pragma unroll
    for (uint32_t word = 0; word < SECTOR_WORDS; word++) {
        uint32_t before = offset > word * 32 ? min(offset - word * 32, 32u) : 0;
        uint32_t mask = static_cast<uint32_t>((1ull << before) - 1);
        sum += __popc(live[word] & mask) - __popc(shadow[word] & mask);
    }
    return sum;
}

}  // namespace gpulsm
