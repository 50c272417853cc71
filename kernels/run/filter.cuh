// Blocked Bloom filters: whether a run may contain a key. A key has four bits in one 64-bit word of a filter, so
// that a query is one load and an insertion one atomic operation.
#pragma once

#include <gpulsm/view.cuh>

namespace gpulsm {

/// The filters of all runs, newest first; null for runs without one. The newest runs are many and short: they may
/// share a joint filter, which mostly rules out all of them at once.
struct Filters {
    const uint64_t* words[MAX_RUNS];
    uint32_t len[MAX_RUNS];  // in words
    const uint64_t* joint;   // null where there is none
    uint32_t joint_len;
    uint32_t joint_runs;  // how many of the newest runs it covers
};

/// The place of a key in filters: its word, as a fraction of all words, and its bits. The CPU computes the same.
struct FilterPlace {
    uint32_t fraction;
    uint64_t bits;

    template <class Key>
    __host__ __device__ explicit FilterPlace(Key key) {
        // Every bit of the key affects every bit of the hash, so that similar keys are spread as well.
        uint64_t digest = static_cast<uint64_t>(key);
        // The upper half is multiplied, so that keys with equal sums of their halves differ.
        if constexpr (sizeof(Key) == 16) digest ^= static_cast<uint64_t>(key >> 64) * 0xc2b2ae3d27d4eb4full;
        uint64_t hash = (digest ^ digest >> 32) * 0x9e3779b97f4a7c15ull;
        hash = (hash ^ hash >> 32) * 0xd6e8feb86659fd93ull;
        hash ^= hash >> 32;
        fraction = static_cast<uint32_t>(hash >> 32);
        bits = 1ull << (hash & 63) | 1ull << (hash >> 6 & 63) | 1ull << (hash >> 12 & 63) | 1ull << (hash >> 18 & 63);
    }

    __device__ uint32_t word(uint32_t len) const { return __umulhi(fraction, len); }
};

/// Adds a key to a filter.
template <class Key>
__device__ __forceinline__ void add_to(unsigned long long* words, uint32_t len, Key key) {
    FilterPlace place(key);
    atomicOr(words + place.word(len), static_cast<unsigned long long>(place.bits));
}

/// Returns whether a run may contain a key according to its filter; always true without a filter.
__device__ __forceinline__ bool may_contain(const uint64_t* words, uint32_t len, const FilterPlace& place) {
    uint64_t word = words == nullptr ? ~0ull : __ldg(words + place.word(len));
    return (word & place.bits) == place.bits;
}

/// Returns the runs that may contain a key, in one bit each.
template <class Key>
__device__ __forceinline__ uint64_t runs_that_may_contain(const Filters& filters, int count, Key key) {
    FilterPlace place(key);
    auto passes = [&](const uint64_t* words, uint32_t len) { return may_contain(words, len, place); };
    int first = filters.joint == nullptr ? 0 : static_cast<int>(filters.joint_runs);
    bool is_new = first > 0 && passes(filters.joint, filters.joint_len);
    uint64_t runs = 0;
#pragma unroll 8
    for (int run = first; run < count; run++) {
        runs |= static_cast<uint64_t>(passes(filters.words[run], filters.len[run])) << run;
    }
    if (is_new) {
        for (int run = 0; run < first; run++) {
            runs |= static_cast<uint64_t>(passes(filters.words[run], filters.len[run])) << run;
        }
    }
    return runs;
}

}  // namespace gpulsm
