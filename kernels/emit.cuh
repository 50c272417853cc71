// The end of every path that makes entries: the kept ones of a tile, packed together behind those
// of the tiles before, with their marks and fences.
#pragma once

#include "../include/gpulsm/queries.cuh"
#include "chain.cuh"
#include "tuning.cuh"

namespace gpulsm {

/// A head as the host sees it, in its own memory.
struct Figures {
    Head head;
    uint64_t ready;
};

/// Tells the host, if it wants to know.
__device__ __forceinline__ void tell(Figures* figures, const Head& head) {
    if (figures == nullptr) return;
    figures->head = head;
    __threadfence_system();
    *static_cast<volatile uint64_t*>(&figures->ready) = 1;
}

/// Where entries go.
template <class Key, class Value>
struct Output {
    Key* keys;
    Value* values;
    Sector* marks;  // null where every entry is new
    Key* inner;     // null, with `outer`, where the entries become no run of their own
    Key* outer;
    Head* head;
    uint64_t sectors;  // of marks
    Figures* figures;  // where the host reads what `head` says; null where it need not know
};

/// What becomes of the entries of a tile that one thread sees to: those at places `threadIdx.x`,
/// `threadIdx.x + THREADS` and so on, in key order; a bit each.
struct Fate {
    uint32_t keep = 0, live = 0, shadow = 0;

    __device__ void set(int item, bool is_live, bool is_shadow) {
        keep |= 1u << item;
        live |= static_cast<uint32_t>(is_live) << item;
        shadow |= static_cast<uint32_t>(is_shadow) << item;
    }
};

/// What the threads of a block tell each other of a tile.
template <int PER_THREAD>
struct Tally {
    // For each warp, and each time around: how many entries it keeps, how many of them are live, and
    // how many shadow an older one; 20 bits each. Then the sums before.
    uint64_t counts[PER_THREAD * WARPS];
    Totals before;
    unsigned last_place;
    bool is_whole;  // Every entry of a full tile is kept.
};

__device__ __forceinline__ uint64_t pack_counts(unsigned keep, unsigned live, unsigned shadow) {
    return static_cast<uint64_t>(__popc(keep)) | static_cast<uint64_t>(__popc(live)) << 20 |
           static_cast<uint64_t>(__popc(shadow)) << 40;
}

/// Counts as totals; the last key is still to be told.
__device__ __forceinline__ Totals unpack_counts(uint64_t counts) {
    int64_t kept = counts & 0xfffff, live = counts >> 20 & 0xfffff, shadow = counts >> 40;
    return {static_cast<uint64_t>(kept), live - shadow, static_cast<uint64_t>(kept - live), 0};
}

/// Turns counts into the sums of those before each, and returns the sum of all. For one warp.
template <int COUNT>
__device__ uint64_t add_up(uint64_t (&counts)[COUNT]) {
    unsigned lane = threadIdx.x % 32;
    uint64_t before = 0;
    for (int start = 0; start < COUNT; start += 32) {
        bool mine = start + lane < COUNT;
        uint64_t own = mine ? counts[start + lane] : 0, sum = own;
        for (unsigned step = 1; step < 32; step *= 2) {
            uint64_t other = __shfl_up_sync(~0u, sum, step);
            if (lane >= step) sum += other;
        }
        if (mine) counts[start + lane] = before + sum - own;
        before += __shfl_sync(~0u, sum, 31);
    }
    return before;
}

__device__ __forceinline__ bool starts_sector(uint64_t position) {
    return position % 32 == 0 && mark_word(position) % SECTOR_WORDS == 0;
}

/// Sets the bits of a plane of marks from entry `first` on: at most 32, in one word or in two.
__device__ __forceinline__ void set_bits(Sector* marks, bool shadow, uint64_t first, unsigned low, unsigned high) {
    uint32_t word = mark_word(first), next = word + 1;
    Sector &one = marks[word / SECTOR_WORDS], &other = marks[next / SECTOR_WORDS];
    if (low != 0) atomicOr((shadow ? one.shadow : one.live) + word % SECTOR_WORDS, low);
    if (high != 0) atomicOr((shadow ? other.shadow : other.live) + next % SECTOR_WORDS, high);
}

/// Sets the marks of the entries that a warp keeps, which lie together from `first` on.
__device__ __forceinline__ void set_marks(Sector* marks, uint64_t first, uint64_t position, unsigned keep,
                                          unsigned lives, unsigned shadows) {
    unsigned lane = threadIdx.x % 32, offset = first % 32;
    unsigned mine = lane == 0 ? lives : shadows;
    unsigned low = mine << offset, high = offset == 0 ? 0 : mine >> (32 - offset);
    if (keep != ~0u) {
        // Some are not kept: the others move together.
        bool second = position / 32 != first / 32;
        unsigned bit = 1u << position % 32;
        unsigned live = lives >> lane & 1 ? bit : 0, shadow = shadows >> lane & 1 ? bit : 0;
        unsigned live_low = __reduce_or_sync(~0u, second ? 0 : live), live_high = __reduce_or_sync(~0u, second ? live : 0);
        unsigned shadow_low = __reduce_or_sync(~0u, second ? 0 : shadow);
        unsigned shadow_high = __reduce_or_sync(~0u, second ? shadow : 0);
        low = lane == 0 ? live_low : shadow_low;
        high = lane == 0 ? live_high : shadow_high;
    }
    if (lane < 2) set_bits(marks, lane == 1, first, low, high);
}

/// Writes the fences of the nodes that an entry is the last of.
template <class Key, class Value>
__device__ __forceinline__ void write_fences(const Output<Key, Value>& out, uint64_t position, Key key) {
    if (position % NODE != NODE - 1 || out.inner == nullptr) return;
    out.inner[position / NODE] = key;
    if (position % (NODE * NODE) == NODE * NODE - 1) out.outer[position / (NODE * NODE)] = key;
}

/// What only the last tile knows: lengths, the last fences, what fills up the last nodes.
template <class Key, class Value>
__device__ void finish(const Totals& all, const Output<Key, Value>& out) {
    Head head = {all.kept, all.sum, all.tombstones};
    if (threadIdx.x == 0) {
        *out.head = head;
        if (out.marks != nullptr && head.len % SECTOR == 0) out.marks[head.len / SECTOR].sum = head.sum;
        tell(out.figures, head);
    }
    if (out.inner == nullptr || head.len == 0) return;
    Key last = static_cast<Key>(all.last);
    uint64_t nodes = (head.len + NODE - 1) / NODE;
    uint64_t pad = head.len + threadIdx.x, fence = nodes + threadIdx.x;
    if (pad < nodes * NODE) out.keys[pad] = HIGHEST<Key>;
    if (fence < (nodes + NODE - 1) / NODE * NODE) out.inner[fence] = HIGHEST<Key>;
    if (threadIdx.x == 0 && head.len % NODE != 0) out.inner[nodes - 1] = last;
    if (threadIdx.x == 0 && head.len % (NODE * NODE) != 0) out.outer[(nodes - 1) / NODE] = last;
}

/// Of a tile whose entries don't come from where all are written to.
constexpr uint64_t ELSEWHERE = ~0ull;

/// Writes the kept entries of a tile, whose keys lie sorted in shared memory. `value_of(place)` is the
/// value of the entry at a place of the tile. Without marks every entry is new.
///
/// If the tile's entries lie in the output already (which they may only with `MAYBE_HERE`), from position
/// `from` on, they only move down, and only if any before them is dropped. No tile writes before all before it have read theirs.
template <bool MARKS, bool MAYBE_HERE, int PER_THREAD, class Key, class Value, class ValueOf>
__device__ void emit(Tally<PER_THREAD>& tally, const Key* keys, const Fate& fate, Chain& chain, uint64_t from,
                     const Output<Key, Value>& out, ValueOf value_of) {
    // How many are kept, warp by warp, and which comes last. Each lane sees to one time around.
    static_assert(PER_THREAD <= 32);
    int lane = threadIdx.x % 32;
    unsigned warp = threadIdx.x / 32;
    if (threadIdx.x == 0) tally.last_place = 0;
    __syncthreads();
    unsigned keep = 0, live = 0, shadow = 0;
#pragma unroll
    for (int i = 0; i < PER_THREAD; i++) {
        unsigned of_warp = __ballot_sync(~0u, fate.keep >> i & 1);
        if (lane == i) keep = of_warp;
        if constexpr (MARKS) {
            unsigned lives = __ballot_sync(~0u, fate.live >> i & 1), shadows = __ballot_sync(~0u, fate.shadow >> i & 1);
            if (lane == i) live = lives, shadow = shadows;
        }
    }
    if (lane < PER_THREAD) tally.counts[lane * WARPS + warp] = pack_counts(keep, MARKS ? live : keep, shadow);
    unsigned some = __ballot_sync(~0u, keep != 0);
    if (some != 0 && lane == 31 - __clz(some)) {
        atomicMax(&tally.last_place, lane * THREADS + warp * 32 + 31 - __clz(keep));
    }
    __syncthreads();

    // Values that others may write over are read before the tiles before this one are waited for.
    Value values[PER_THREAD];
    if constexpr (MAYBE_HERE && sizeof(Value) > 1) {
#pragma unroll
        for (int i = 0; i < PER_THREAD; i++) {
            if (fate.keep >> i & 1) values[i] = value_of(i * THREADS + threadIdx.x);
        }
    }
    if (from != ELSEWHERE) __syncthreads();  // All is read…

    // How many are kept before: in this tile, and in those before it.
    if (warp == 0) {
        Totals mine = unpack_counts(add_up(tally.counts));
        mine.last = keys[tally.last_place];
        if (from != ELSEWHERE) __threadfence();  // …before others hear of it…
        Totals before = chain.look_back(mine);
        if (from != ELSEWHERE) __threadfence();  // …and of others before anything is written.
        if (lane == 0) tally.before = before;
        if (lane == 0) tally.is_whole = mine.kept == PER_THREAD * THREADS;
        if (chain.is_last()) finish(before + mine, out);
    }
    __syncthreads();

    // Written in order, neighbours by neighbours. The first entry of a sector of marks knows the sum
    // that the sector starts from.
    uint64_t base = tally.before.kept;
    Key* out_keys = out.keys + base;
    Value* out_values = out.values + (sizeof(Value) > 1 ? base : 0);
    bool is_whole = tally.is_whole;
    if (!MARKS && is_whole && base == from) {
        // Nothing moves: fences are all there is to write.
        unsigned place = threadIdx.x * NODE + NODE - 1;
        for (; place < PER_THREAD * THREADS; place += THREADS * NODE) write_fences(out, base + place, keys[place]);
        return;
    }
#pragma unroll
    for (int i = 0; i < PER_THREAD; i++) {
        unsigned keep = ~0u, earlier = (1u << lane) - 1;
        unsigned first = i * THREADS + warp * 32, place = first + lane;
        if (!is_whole) {
            keep = __ballot_sync(~0u, fate.keep >> i & 1);
            first = static_cast<unsigned>(tally.counts[i * WARPS + warp] & 0xfffff);
            place = first + __popc(keep & earlier);
        }
        bool kept = keep >> lane & 1;
        if (kept) {
            Key key = keys[i * THREADS + threadIdx.x];
            out_keys[place] = key;
            if constexpr (sizeof(Value) > 1) {
                out_values[place] = MAYBE_HERE ? values[i] : value_of(i * THREADS + threadIdx.x);
            }
            write_fences(out, base + place, key);
        }
        if constexpr (MARKS) {
            if (keep == 0) continue;
            unsigned lives = __ballot_sync(~0u, fate.live >> i & 1), shadows = __ballot_sync(~0u, fate.shadow >> i & 1);
            uint64_t position = base + place;
            if (kept && starts_sector(position)) {
                int64_t sum = tally.before.sum + unpack_counts(tally.counts[i * WARPS + warp]).sum;
                out.marks[sector_of(position)].sum = sum + __popc(lives & earlier) - __popc(shadows & earlier);
            }
            set_marks(out.marks, base + first, position, keep, lives, shadows);
        }
    }
}

}  // namespace gpulsm
