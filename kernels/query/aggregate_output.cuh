// Ranges whose values are combined, their answers, and the lists of ranges that take more than a thread or a warp.
#pragma once

#include "query/dead.cuh"
#include "query/fold.cuh"

namespace gpulsm {

/// A range of so many pairs that several blocks share it, in pieces.
struct HugeRange {
    uint64_t range, pieces;
    uint64_t first_item;  // The pieces of all huge ranges are numbered in the order of the list.
    uint64_t totals[4];   // of the pieces that are done
    uint64_t done;
};

/// What blocks tell each other about the ranges of a call. Zeroed before, up to the stretches' `first`.
template <class Key>
struct AggregateLists {
    uint64_t longs;  // how many ranges a block each merges
    uint64_t flats;  // how many ranges a warp each combines without merging
    uint64_t huges;  // how many huge ranges there are, and in the low 32 bits how many pieces they have
    DeadStretches<Key> dead;
};

/// Ranges and their answers.
template <class Key, class Value>
struct AggregateOutput {
    uint64_t len;
    const ulonglong2* windows;  // as `count.cu` writes them
    const uint64_t* counts;
    void* answers;
    Fold fold;
    // Memory that blocks share: lists of ranges, and before them their lengths and dead stretches.
    // `gpulsm_aggregate_bytes` tells its size and how much of it must be zeroed.
    void* scratch;

    __device__ AggregateLists<Key>& lists() const { return *static_cast<AggregateLists<Key>*>(scratch); }

    /// Return the lists of ranges that are merged by a block each, and of huge ones, with room for all ranges. Those that
    /// a warp combines fill the first of the two lists from its end.
    __device__ uint64_t* longs() const {
        return reinterpret_cast<uint64_t*>(static_cast<AggregateLists<WideKey>*>(scratch) + 1);
    }
    __device__ HugeRange* huges() const { return reinterpret_cast<HugeRange*>(longs() + len); }

    __device__ ulonglong2 window(uint64_t range, int run) const { return __ldg(windows + run * len + range); }

    __device__ void add_long(uint64_t range) const {
        longs()[atomicAdd(reinterpret_cast<unsigned long long*>(&lists().longs), 1ull)] = range;
    }

    __device__ void add_flat(uint64_t range) const {
        // One addition for all threads of the warp that are here.
        unsigned here = __activemask(), before = here & ((1u << threadIdx.x % 32) - 1);
        uint64_t first = 0;
        if (before == 0) first = atomicAdd(reinterpret_cast<unsigned long long*>(&lists().flats), uint64_t(__popc(here)));
        first = __shfl_sync(here, first, __ffs(here) - 1);
        longs()[len - 1 - first - __popc(before)] = range;
    }
    __device__ uint64_t flat(uint64_t index) const { return longs()[len - 1 - index]; }

    __device__ void add_huge(uint64_t range, uint64_t pairs) const {
        // The numbers of all pieces fit in 32 bits.
        uint64_t most = max(min(MAX_PIECES, (uint64_t(1) << 31) / len), uint64_t(1));
        uint64_t pieces = min((pairs + HUGE_PIECE - 1) / HUGE_PIECE, most);
        auto* counter = reinterpret_cast<unsigned long long*>(&lists().huges);
        uint64_t before = atomicAdd(counter, 1ull << 32 | pieces), none = fold.identity();
        huges()[before >> 32] = {range, pieces, before & 0xffffffffu, {none, none, none, none}, 0};
    }

    __device__ uint64_t items() const { return lists().huges & 0xffffffffu; }

    /// Returns the huge range that has the piece with this number: the last whose first number is not greater.
    __device__ HugeRange& range_of(uint64_t item) const {
        HugeRange* all = huges();
        uint64_t at = 0;
        for (uint64_t len = lists().huges >> 32; len > 1;) {
            uint64_t half = len / 2;
            bool up = all[at + half].first_item <= item;
            at = up ? at + half : at;
            len = up ? len - half : half;
        }
        return all[at];
    }

    /// Adds what one piece has come to; the last one writes the answer. For one thread.
    __device__ void finish_piece(HugeRange& huge, const Folded<Value>& folded) const {
#pragma unroll
        for (int i = 0; i < MAX_ELEMENTS<Value>; i++) fold.combine_into(&huge.totals[i], folded.totals[i]);
        __threadfence();
        auto* done = reinterpret_cast<unsigned long long*>(&huge.done);
        if (atomicAdd(done, 1ull) + 1 < huge.pieces) return;
        __threadfence();
        Folded<Value> all(fold);
#pragma unroll
        for (int i = 0; i < MAX_ELEMENTS<Value>; i++) all.totals[i] = __ldcg(&huge.totals[i]);
        all.write(fold, answers, huge.range, false);
    }
};

}  // namespace gpulsm
