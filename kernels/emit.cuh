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
    unsigned long long* filter;  // null where none is made with the entries; a merge with marks makes it
    uint32_t filter_len;         // in words
};

/// What the threads of a block tell each other of a tile.
template <int PER_THREAD>
struct Tally {
    // For each warp, and each time around: how many entries it keeps, how many of them are live, and
    // how many shadow an older one; 20 bits each. Then the sums before.
    uint64_t counts[PER_THREAD * WARPS];
    Totals before;
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

}  // namespace gpulsm
