// Filters: for a run and a key, "it is not there" or "it may be". A key has one word of its run's filter,
// and a few bits in it: one read to ask, one atomic operation to add.
#pragma once

#include "../include/gpulsm/view.cuh"

namespace gpulsm {

/// The filters of all runs, newest first; null where a run has none. The newest runs are short and many:
/// they may have one together, which mostly says that none of them need be asked.
struct Filters {
    const uint64_t* words[MAX_RUNS];
    uint32_t len[MAX_RUNS];  // in words
    const uint64_t* joint;   // null where there is none
    uint32_t joint_len;
    uint32_t joint_runs;  // so many of the newest
};

/// A key's word, as a fraction of all words, and its bits.
struct FilterPlace {
    uint32_t fraction;
    uint64_t bits;

    __device__ explicit FilterPlace(uint64_t key) {
        // Any bit of the key may change any bit of this, so that keys with something in common are spread too.
        uint64_t hash = (key ^ key >> 32) * 0x9e3779b97f4a7c15ull;
        hash = (hash ^ hash >> 32) * 0xd6e8feb86659fd93ull;
        hash ^= hash >> 32;
        fraction = static_cast<uint32_t>(hash >> 32);
        bits = 1ull << (hash & 63) | 1ull << (hash >> 6 & 63) | 1ull << (hash >> 12 & 63) | 1ull << (hash >> 18 & 63);
    }

    __device__ uint32_t word(uint32_t len) const { return __umulhi(fraction, len); }
};

/// Adds a key to a filter.
__device__ __forceinline__ void add_to(unsigned long long* words, uint32_t len, uint64_t key) {
    FilterPlace place(key);
    atomicOr(words + place.word(len), static_cast<unsigned long long>(place.bits));
}

/// Whether a filter says that the key may be there; one that isn't there says so always.
__device__ __forceinline__ bool may_have(const uint64_t* words, uint32_t len, const FilterPlace& place) {
    uint64_t word = words == nullptr ? ~0ull : __ldg(words + place.word(len));
    return (word & place.bits) == place.bits;
}

/// The runs that may have the key, a bit each.
template <class Key>
__device__ __forceinline__ uint64_t runs_with(const Filters& filters, int count, Key key) {
    FilterPlace place(key);
    auto says = [&](const uint64_t* words, uint32_t len) { return may_have(words, len, place); };
    int first = filters.joint == nullptr ? 0 : static_cast<int>(filters.joint_runs);
    bool is_new = first > 0 && says(filters.joint, filters.joint_len);
    uint64_t runs = 0;
#pragma unroll 8
    for (int run = first; run < count; run++) {
        runs |= static_cast<uint64_t>(says(filters.words[run], filters.len[run])) << run;
    }
    if (is_new) {
        for (int run = 0; run < first; run++) {
            runs |= static_cast<uint64_t>(says(filters.words[run], filters.len[run])) << run;
        }
    }
    return runs;
}

}  // namespace gpulsm
