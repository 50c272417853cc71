// Sorts keys in shared memory, by a block, and by as few of their bits as tell them apart.
#pragma once

#include <cub/block/block_radix_rank.cuh>
#include <cub/block/radix_rank_sort_operations.cuh>

#include <gpulsm/wide.cuh>

#include "run/warp.cuh"

namespace gpulsm {

/// Returns the number of the highest bit that is set; of one at least.
__device__ __forceinline__ int highest_bit(uint32_t bits) { return 31 - __clz(bits); }
__device__ __forceinline__ int highest_bit(uint64_t bits) { return 63 - __clzll(static_cast<long long>(bits)); }
__device__ __forceinline__ int highest_bit(WideKey bits) {
    auto high = static_cast<uint64_t>(bits >> 64);
    return high != 0 ? 64 + highest_bit(high) : highest_bit(static_cast<uint64_t>(bits));
}

/// Sorts keys that stay where they are: what is moved are words of a key's place, below 16 bits to sort by. The sort is
/// stable.
///
/// Most keys are told apart by the 16 bits below the first in which any two of them differ. The few others, which are
/// next to each other then, are put in order one by one; if there are many, all are sorted by every digit in which
/// they differ. In registers each warp has a contiguous part, striped over its lanes.
template <class Key, int BLOCK, int PER_THREAD>
struct BlockSort {
    static constexpr int BITS = 8, PLACE_BITS = 16, CAPACITY = BLOCK * PER_THREAD;
    static_assert(CAPACITY <= 1 << PLACE_BITS);
    using Rank = cub::BlockRadixRankMatchEarlyCounts<BLOCK, BITS, false>;
    using Words = uint32_t (&)[PER_THREAD];

    /// Ranking and sorted words take turns.
    struct Shared {
        union {
            typename Rank::TempStorage rank;
            uint32_t words[CAPACITY];
        };
        Key of_warps[BLOCK / 32];
    };

    /// Fewer neighbours than this that have the same 16 bits are put in order by one thread.
    static constexpr int FEW_TIES = 8;

    static __device__ __forceinline__ unsigned place(uint32_t word) { return word & ((1u << PLACE_BITS) - 1); }

    /// Leaves words in shared memory, in the order of the `len` keys: their places are in `place(word)`. There must be a
    /// barrier between writing the keys and this; there is one at its end.
    static __device__ __forceinline__ void sort(Shared& shared, const Key* keys, unsigned len) {
        unsigned start = threadIdx.x / 32 * 32 * PER_THREAD + threadIdx.x % 32;
        Key differing = 0;
#pragma unroll
        for (int i = 0; i < PER_THREAD; i++) {
            unsigned index = start + i * 32;
            if (index < len) differing |= keys[index] ^ keys[0];
        }
        for (int step = 16; step > 0; step /= 2) differing |= shuffle_across(~0u, differing, step);
        if (threadIdx.x % 32 == 0) shared.of_warps[threadIdx.x / 32] = differing;
        __syncthreads();
        differing = differing_bits(shared);
        int bits = differing == 0 ? 0 : highest_bit(differing) + 1, shift = max(0, bits - PLACE_BITS);
        uint32_t words[PER_THREAD];
#pragma unroll
        for (int i = 0; i < PER_THREAD; i++) {
            unsigned index = start + i * 32;
            // What is not there sorts last, for the sort is stable.
            words[i] = index < len ? static_cast<uint32_t>(keys[index] >> shift) << PLACE_BITS | index : ~0u;
        }
        int end = PLACE_BITS + (bits > BITS ? 2 * BITS : BITS);
#pragma unroll 1
        for (int bit = PLACE_BITS; bit < end; bit += BITS) pass(shared, start, words, bit);
        if (shift == 0) return;
        uint64_t ties = find_ties(shared, len);
        if (!__syncthreads_or(ties == MANY_TIES)) {
            mend(shared, keys, ties);
            __syncthreads();
            return;
        }
#pragma unroll 1
        for (int bit = 0; bit < bits; bit += BITS) {
            if ((static_cast<unsigned>(differing_bits(shared) >> bit) & ((1u << BITS) - 1)) == 0) continue;
#pragma unroll
            for (int i = 0; i < PER_THREAD; i++) {
                unsigned index = start + i * 32, from = place(shared.words[index]);
                uint32_t digit = index < len ? static_cast<uint32_t>(keys[from] >> bit) & ((1u << BITS) - 1) : 0;
                words[i] = index < len ? digit << PLACE_BITS | from : ~0u;
            }
            __syncthreads();
            pass(shared, start, words, PLACE_BITS);
        }
    }

private:
    /// Returns the bits in which some key differs from another. (In registers they would take room for the whole sort.)
    static __device__ __forceinline__ Key differing_bits(const Shared& shared) {
        Key differing = 0;
#pragma unroll
        for (int i = 0; i < BLOCK / 32; i++) differing |= shared.of_warps[i];
        return differing;
    }

    /// Sorts the words by one digit.
    static __device__ __forceinline__ void pass(Shared& shared, unsigned start, Words words, int bit) {
        int ranks[PER_THREAD];
        Rank(shared.rank).RankKeys(words, ranks, cub::BFEDigitExtractor<uint32_t>(bit, BITS));
        __syncthreads();
#pragma unroll
        for (int i = 0; i < PER_THREAD; i++) shared.words[ranks[i]] = words[i];
        __syncthreads();
#pragma unroll
        for (int i = 0; i < PER_THREAD; i++) words[i] = shared.words[start + i * 32];
        __syncthreads();
    }

    static constexpr uint64_t MANY_TIES = ~0ull;

    /// Finds keys with the same 16 bits: for every `BLOCK`th word from this thread's on that is the first of some, how many
    /// follow it, in 4 bits each. Returns `MANY_TIES` if some are too many.
    static __device__ __forceinline__ uint64_t find_ties(const Shared& shared, unsigned len) {
        static_assert(PER_THREAD <= 16 && FEW_TIES < 15);
        auto prefix = [&](unsigned index) { return shared.words[index] >> PLACE_BITS; };
        uint64_t ties = 0;
#pragma unroll 1
        for (unsigned i = 0, first = threadIdx.x; first + 1 < len; i++, first += BLOCK) {
            if (prefix(first + 1) != prefix(first) || (first > 0 && prefix(first - 1) == prefix(first))) continue;
            unsigned follow = 1;
            while (first + follow + 1 < len && prefix(first + follow + 1) == prefix(first)) {
                if (++follow >= FEW_TIES) return MANY_TIES;
            }
            ties |= static_cast<uint64_t>(follow) << 4 * i;
        }
        return ties;
    }

    /// Puts keys with the same 16 bits in order, each group by one thread.
    static __device__ __forceinline__ void mend(Shared& shared, const Key* keys, uint64_t ties) {
#pragma unroll 1
        for (unsigned first = threadIdx.x; ties != 0; ties >>= 4, first += BLOCK) {
            unsigned follow = ties & 15;
            for (unsigned next = first + 1; next <= first + follow; next++) {
                uint32_t word = shared.words[next];
                Key key = keys[place(word)];
                unsigned to = next;
                for (; to > first && keys[place(shared.words[to - 1])] > key; to--) shared.words[to] = shared.words[to - 1];
                shared.words[to] = word;
            }
        }
    }
};

}  // namespace gpulsm
