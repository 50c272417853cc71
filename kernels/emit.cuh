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
    unsigned index;
    unsigned last_place;
};

__device__ __forceinline__ uint64_t pack_counts(unsigned keep, unsigned live, unsigned shadow) {
    return static_cast<uint64_t>(__popc(keep)) | static_cast<uint64_t>(__popc(keep & live)) << 20 |
           static_cast<uint64_t>(__popc(keep & shadow)) << 40;
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
        for (int step = 1; step < 32; step *= 2) {
            uint64_t other = __shfl_up_sync(~0u, sum, step);
            if (lane >= step) sum += other;
        }
        if (mine) counts[start + lane] = before + sum - own;
        before += __shfl_sync(~0u, sum, 31);
    }
    return before;
}

/// Sets the marks of entries that lie together from `first` on, at most 32, one of each lane's.
__device__ __forceinline__ void set_marks(Sector* marks, uint64_t first, uint64_t position, bool live, bool shadow) {
    // They fall into one word of each plane or into two: lanes 0 to 3 see to one each.
    unsigned bit = 1u << position % 32;
    bool second = position / 32 != first / 32;
    unsigned words[4] = {
        __reduce_or_sync(~0u, live && !second ? bit : 0),
        __reduce_or_sync(~0u, shadow && !second ? bit : 0),
        __reduce_or_sync(~0u, live && second ? bit : 0),
        __reduce_or_sync(~0u, shadow && second ? bit : 0),
    };
    unsigned lane = threadIdx.x % 32;
    unsigned bits = lane == 0 ? words[0] : lane == 1 ? words[1] : lane == 2 ? words[2] : words[3];
    if (lane >= 4 || bits == 0) return;
    uint64_t word = first / 32 + (lane >= 2);
    Sector& sector = marks[word / 3];
    atomicOr((lane % 2 ? sector.shadow : sector.live) + word % 3, bits);
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

/// Writes the kept entries of a tile, whose keys lie sorted in shared memory. `value_of(place)` is the
/// value of the entry at a place of the tile.
template <int PER_THREAD, class Key, class Value, class ValueOf>
__device__ void emit(Tally<PER_THREAD>& tally, const Key* keys, const Fate& fate, Chain& chain,
                     const Output<Key, Value>& out, ValueOf value_of) {
    // How many are kept, warp by warp, and which comes last.
    unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    if (threadIdx.x == 0) tally.last_place = 0;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < PER_THREAD; i++) {
        unsigned keep = __ballot_sync(~0u, fate.keep >> i & 1);
        unsigned live = __ballot_sync(~0u, fate.live >> i & 1), shadow = __ballot_sync(~0u, fate.shadow >> i & 1);
        if (lane == 0) {
            tally.counts[i * WARPS + warp] = pack_counts(keep, live, shadow);
            if (keep != 0) atomicMax(&tally.last_place, i * THREADS + warp * 32 + 31 - __clz(keep));
        }
    }
    __syncthreads();

    // How many are kept before: in this tile, and in those before it.
    if (warp == 0) {
        Totals mine = unpack_counts(add_up(tally.counts));
        mine.last = keys[tally.last_place];
        Totals before = chain.look_back(tally.index, mine);
        if (lane == 0) tally.before = before;
        if (chain.is_last(tally.index)) finish(before + mine, out);
    }
    __syncthreads();

    // Written in order, neighbours by neighbours. The first entry of a sector of marks knows the sum
    // that the sector starts from.
#pragma unroll
    for (int i = 0; i < PER_THREAD; i++) {
        unsigned up_to = (2u << lane) - 1;  // this lane's bit and those before
        unsigned keep = __ballot_sync(~0u, fate.keep >> i & 1);
        if (keep == 0) continue;
        Totals before = tally.before + unpack_counts(tally.counts[i * WARPS + warp]);
        bool mine = fate.keep >> i & 1, live = fate.live >> i & 1, shadow = fate.shadow >> i & 1;
        uint64_t position = before.kept + __popc(keep & up_to) - mine;
        if (mine) {
            unsigned place = i * THREADS + threadIdx.x;
            Key key = keys[place];
            out.keys[position] = key;
            if constexpr (sizeof(Value) > 1) out.values[position] = value_of(place);
            if (out.inner != nullptr && position % NODE == NODE - 1) {
                out.inner[position / NODE] = key;
                if (position / NODE % NODE == NODE - 1) out.outer[position / (NODE * NODE)] = key;
            }
        }
        if (out.marks == nullptr) continue;
        unsigned lives = __ballot_sync(~0u, mine && live), shadows = __ballot_sync(~0u, mine && shadow);
        if (mine && position % SECTOR == 0) {
            unsigned earlier = up_to >> 1;
            out.marks[position / SECTOR].sum = before.sum + __popc(lives & earlier) - __popc(shadows & earlier);
        }
        set_marks(out.marks, before.kept, position, mine && live, mine && shadow);
    }
}

}  // namespace gpulsm
