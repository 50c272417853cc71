// A prefix sum over tiles that are processed concurrently, by decoupled look-back: each tile adds up the totals
// that the tiles before it have published, back to the first one that has published its prefix sum.
#pragma once

#include <gpulsm/view.cuh>

#include "run/warp.cuh"

namespace gpulsm {

/// Totals of entries: their number, the sum of their marks, tombstones, and the last key.
template <class Key>
struct Totals {
    uint64_t kept;
    int64_t sum;
    uint64_t tombstones;
    Key last;  // valid if any entry is kept
};

template <class Key>
__device__ __forceinline__ Totals<Key> operator+(const Totals<Key>& before, const Totals<Key>& after) {
    return {before.kept + after.kept, before.sum + after.sum, before.tombstones + after.tombstones,
            after.kept == 0 ? before.last : after.last};
}

/// Returns how many pairs of words a tile's slot in a chain has.
constexpr int slot_pairs(int key_width) { return key_width <= 8 ? 2 : 3; }

/// Returns the bytes of a chain of this many tiles.
inline uint64_t chain_bytes(int key_width, uint64_t tiles) { return tiles * slot_pairs(key_width) * sizeof(ulonglong2); }

template <class Key>
class Chain {
public:
    /// Uses `chain_bytes` bytes that were zero before the first tile. Tiles before `first` are complete.
    Chain(void* slots, uint64_t tiles, uint64_t first = 0)
        : tiles_(tiles), first_(first), slots_(static_cast<ulonglong2*>(slots)) {}

    /// Returns the tile of this block. Blocks start in the order of their indices (CUB relies on that too), so a
    /// tile never waits for one that cannot start.
    __device__ uint64_t tile() const { return first_ + blockIdx.x; }

    /// Returns the first tile of this launch.
    __device__ uint64_t first() const { return first_; }

    __device__ bool is_last() const { return tile() == tiles_ - 1; }

    /// Publishes the totals of this tile and returns those of all tiles before it. For one whole warp; every lane
    /// gets the result.
    __device__ Totals<Key> look_back(const Totals<Key>& mine) {
        unsigned lane = threadIdx.x % 32;
        if (lane == 0) publish(tile(), mine, OWN);
        Totals<Key> before = {0, 0, 0, 0};
        // Each lane reads one tile, the first lane the nearest.
        for (int64_t nearest = static_cast<int64_t>(tile()) - 1; nearest >= 0; nearest -= 32) {
            Totals<Key> part = {0, 0, 0, 0};
            int64_t other = nearest - lane;
            unsigned state = other >= 0 ? wait_for(other, part) : NONE;
            unsigned ends = __ballot_sync(~0u, state == PREFIX);
            int end = ends == 0 ? 32 : __ffs(ends) - 1;
            before = sum_of_tiles(part, state == OWN && lane < end) + before;
            if (ends == 0) continue;
            before = of_lane(part, end) + before;
            break;
        }
        if (lane == 0) publish(tile(), before + mine, PREFIX);
        return before;
    }

private:
    static constexpr int PAIRS = slot_pairs(sizeof(Key));

    /// What a slot holds: nothing yet, the totals of its tile, or the totals of all tiles up to it.
    enum : unsigned { NONE, OWN, PREFIX };

    /// Each word of a slot carries its state, so that words of different states are never combined.
    static __device__ uint64_t word(unsigned state, uint64_t value) {
        return static_cast<uint64_t>(state) << 62 | (value & ~0ull >> 2);
    }

    __device__ void publish(uint64_t tile, const Totals<Key>& totals, unsigned state) {
        uint64_t tombstones = totals.tombstones, last = static_cast<uint64_t>(totals.last);
        uint64_t words[2 * PAIRS] = {word(state, totals.kept), word(state, static_cast<uint64_t>(totals.sum)),
                                     word(state, tombstones >> 30 << 32 | last >> 32),
                                     word(state, (tombstones & (1u << 30) - 1) << 32 | (last & ~0u))};
        if constexpr (PAIRS == 3) {
            words[4] = word(state, static_cast<uint64_t>(totals.last >> 96));
            words[5] = word(state, static_cast<uint64_t>(totals.last >> 64) & ~0u);
        }
#pragma unroll
        for (int i = 0; i < PAIRS; i++) {
            asm volatile("st.relaxed.gpu.global.v2.u64 [%0], {%1, %2};" ::"l"(slots_ + PAIRS * tile + i),
                         "l"(words[2 * i]), "l"(words[2 * i + 1])
                         : "memory");
        }
    }

    /// Waits until a tile has published its totals, and returns their state.
    __device__ unsigned wait_for(uint64_t tile, Totals<Key>& totals) const {
        uint64_t words[2 * PAIRS];
        unsigned state;
        bool is_whole;
        do {
#pragma unroll
            for (int i = 0; i < PAIRS; i++) {
                asm volatile("ld.relaxed.gpu.global.v2.u64 {%0, %1}, [%2];"
                             : "=l"(words[2 * i]), "=l"(words[2 * i + 1])
                             : "l"(slots_ + PAIRS * tile + i)
                             : "memory");
            }
            state = static_cast<unsigned>(words[0] >> 62);
            is_whole = state != NONE;
#pragma unroll
            for (int i = 1; i < 2 * PAIRS; i++) is_whole = is_whole && words[i] >> 62 == state;
        } while (!is_whole);
        totals.kept = words[0] & ~0ull >> 2;
        totals.sum = static_cast<int64_t>(words[1] << 2) >> 2;
        totals.tombstones = (words[2] & ~0ull >> 2) >> 32 << 30 | (words[3] & ~0ull >> 2) >> 32;
        totals.last = words[2] << 32 | (words[3] & ~0u);
        if constexpr (PAIRS == 3) totals.last |= static_cast<Key>(words[4] << 32 | (words[5] & ~0u)) << 64;
        return state;
    }

    /// Returns the totals of the included lanes' tiles; tiles of lower lanes come after those of higher lanes. The
    /// entries of 32 tiles fit in 32 bits.
    static __device__ Totals<Key> sum_of_tiles(const Totals<Key>& part, bool is_included) {
        unsigned some = __ballot_sync(~0u, is_included && part.kept > 0);
        return {__reduce_add_sync(~0u, is_included ? static_cast<unsigned>(part.kept) : 0),
                __reduce_add_sync(~0u, is_included ? static_cast<int>(part.sum) : 0),
                __reduce_add_sync(~0u, is_included ? static_cast<unsigned>(part.tombstones) : 0),
                shuffle(~0u, part.last, some == 0 ? 0 : __ffs(some) - 1)};
    }

    static __device__ Totals<Key> of_lane(const Totals<Key>& part, int lane) {
        return {__shfl_sync(~0u, part.kept, lane), __shfl_sync(~0u, part.sum, lane),
                __shfl_sync(~0u, part.tombstones, lane), shuffle(~0u, part.last, lane)};
    }

    uint64_t tiles_, first_;
    ulonglong2* slots_;
};

}  // namespace gpulsm
