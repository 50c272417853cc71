// Writes a run: the entries of a tile that are kept follow those of the tiles before, with their marks and fences.
#pragma once

#include <gpulsm/queries.cuh>

#include "run/chain.cuh"
#include "tuning.cuh"

namespace gpulsm {

/// A head in pinned host memory.
struct PinnedHead {
    Head head;
    uint64_t ready;
};

/// Writes a head to the host's memory, unless that is null.
__device__ __forceinline__ void publish(PinnedHead* pinned_head, const Head& head) {
    if (pinned_head == nullptr) return;
    pinned_head->head = head;
    __threadfence_system();
    *static_cast<volatile uint64_t*>(&pinned_head->ready) = 1;
}

/// The arrays of a run that a kernel writes.
template <class Key, class Value>
struct RunOutput {
    Key* keys;
    Value* values;
    Sector* marks;  // null where every entry is new, or marks are computed later
    Key* inner;     // null, like `outer`, where the entries are no run of their own
    Key* outer;
    Head* head;
    uint64_t sectors;  // of marks
    PinnedHead* pinned_head;  // a copy of `head` for the host; null where it needs none
    unsigned long long* filter;  // null where none is built; only a merge with marks builds one
    uint32_t filter_len;         // in words
};

/// What the threads of a block share about a tile.
template <int PER_THREAD, class Key>
struct Tally {
    // For each warp and iteration the entries that are kept, live, and shadows, in 20 bits each; then their
    // exclusive prefix sums.
    uint64_t counts[PER_THREAD * WARPS];
    Totals<Key> before;
};

__device__ __forceinline__ uint64_t pack_counts(unsigned keep, unsigned live, unsigned shadow) {
    return static_cast<uint64_t>(__popc(keep)) | static_cast<uint64_t>(__popc(live)) << 20 |
           static_cast<uint64_t>(__popc(shadow)) << 40;
}

/// Returns counts as totals, without the last key.
template <class Key>
__device__ __forceinline__ Totals<Key> unpack_counts(uint64_t counts) {
    int64_t kept = counts & 0xfffff, live = counts >> 20 & 0xfffff, shadow = counts >> 40;
    return {static_cast<uint64_t>(kept), live - shadow, static_cast<uint64_t>(kept - live), 0};
}

/// Replaces counts by their exclusive prefix sums and returns the sum of all. For one warp.
template <int COUNT>
__device__ uint64_t exclusive_sum(uint64_t (&counts)[COUNT]) {
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

/// Writes the fences of the nodes that end with an entry.
template <class Key, class Value>
__device__ __forceinline__ void write_fences(const RunOutput<Key, Value>& out, uint64_t position, Key key) {
    if (position % NODE != NODE - 1 || out.inner == nullptr) return;
    out.inner[position / NODE] = key;
    if (position % (NODE * NODE) == NODE * NODE - 1) out.outer[position / (NODE * NODE)] = key;
}

/// Writes what only the last tile knows: the head, the last fences, and the padding of the last nodes.
template <class Key, class Value>
__device__ void finish(const Totals<Key>& all, const RunOutput<Key, Value>& out) {
    Head head = {all.kept, all.sum, all.tombstones};
    if (threadIdx.x == 0) {
        *out.head = head;
        if (out.marks != nullptr && head.len % SECTOR == 0) out.marks[head.len / SECTOR].sum = head.sum;
        publish(out.pinned_head, head);
    }
    if (out.inner == nullptr || head.len == 0) return;
    uint64_t nodes = (head.len + NODE - 1) / NODE;
    uint64_t pad = head.len + threadIdx.x, fence = nodes + threadIdx.x;
    if (pad < nodes * NODE) out.keys[pad] = HIGHEST<Key>;
    if (fence < (nodes + NODE - 1) / NODE * NODE) out.inner[fence] = HIGHEST<Key>;
    if (threadIdx.x == 0 && head.len % NODE != 0) out.inner[nodes - 1] = all.last;
    if (threadIdx.x == 0 && head.len % (NODE * NODE) != 0) out.outer[(nodes - 1) / NODE] = all.last;
}

}  // namespace gpulsm
