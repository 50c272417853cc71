// Filters: for a run and a key, "it is not there" or "it may be". A key has one word of its run's filter,
// and a few bits in it: one read to ask, one atomic operation to add.
#pragma once

#include "../include/gpulsm/view.cuh"

namespace gpulsm {

/// The filters of all runs, newest first; null where a run has none.
struct Filters {
    const uint64_t* words[MAX_RUNS];
    uint32_t len[MAX_RUNS];  // in words
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

/// The runs that may have the key, a bit each.
template <class Key>
__device__ __forceinline__ uint64_t runs_with(const Filters& filters, int count, Key key) {
    FilterPlace place(key);
    uint64_t runs = 0;
#pragma unroll 8
    for (int run = 0; run < count; run++) {
        const uint64_t* words = filters.words[run];
        uint64_t word = words == nullptr ? ~0ull : __ldg(words + place.word(filters.len[run]));
        runs |= static_cast<uint64_t>((word & place.bits) == place.bits) << run;
    }
    return runs;
}

}  // namespace gpulsm
