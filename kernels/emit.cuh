// The end of every path that makes entries: the kept ones of a tile, packed together behind those
// of the tiles before, with their marks and fences.
#pragma once

#include <cub/block/block_scan.cuh>

#include "../include/gpulsm/queries.cuh"
#include "chain.cuh"
#include "tuning.cuh"

namespace gpulsm {

/// A head as the host sees it, in its own memory.
struct Figures {
    Head head;
    uint64_t ready;
};

/// Where entries go.
template <class Key, class Value>
struct Output {
    Key* keys;
    Value* values;
    Sector* marks;  // all zero before; null where every entry is new
    Key* inner;     // null, with `outer`, where the entries become no run of their own
    Key* outer;
    Head* head;
    Figures* figures;  // where the host reads what `head` says; null where it need not know
};

/// An entry of a tile in 16 bits: which item, whether it is kept, and its mark.
namespace entry {
constexpr uint16_t ITEM = 0x0fff, KEEP = 0x2000, LIVE = 0x4000, SHADOW = 0x8000;
static_assert(TILE <= ITEM + 1);

__device__ __forceinline__ int worth(uint16_t entry) { return ((entry & LIVE) != 0) - ((entry & SHADOW) != 0); }
}  // namespace entry

template <class Key>
struct Tile {
    using Scan = cub::BlockScan<uint64_t, THREADS>;

    Key keys[TILE + 1];
    uint16_t kept[TILE];
    typename Scan::TempStorage scan;
    Totals before;
    unsigned index;
};

/// Sums over a tile in one word, 20 bits each: kept entries, their worths + 1, tombstones.
struct Packed {
    static __device__ uint64_t of(uint16_t entry) {
        if (!(entry & entry::KEEP)) return 0;
        uint64_t tombstone = !(entry & entry::LIVE);
        return 1 | static_cast<uint64_t>(entry::worth(entry) + 1) << 20 | tombstone << 40;
    }

    static __device__ Totals totals(uint64_t word) {
        uint64_t kept = word & 0xfffff;
        int64_t sum = static_cast<int64_t>(word >> 20 & 0xfffff) - static_cast<int64_t>(kept);
        return {kept, sum, word >> 40};
    }
};

/// Sets the marks of up to 32 entries that lie together, one of each lane's.
__device__ __forceinline__ void set_marks(Sector* marks, uint64_t first, bool live, bool shadow) {
    unsigned lives = __ballot_sync(~0u, live), shadows = __ballot_sync(~0u, shadow);
    // They fall into one word of each plane or into two: lanes 0 to 3 see to one each.
    unsigned lane = threadIdx.x % 32, offset = first % 32;
    if (lane >= 4) return;
    unsigned bits = lane % 2 ? shadows : lives;
    bits = lane < 2 ? bits << offset : static_cast<unsigned>(static_cast<uint64_t>(bits) << offset >> 32);
    if (bits == 0) return;
    uint64_t word = first / 32 + (lane >= 2);
    Sector& sector = marks[word / 3];
    atomicOr((lane % 2 ? sector.shadow : sector.live) + word % 3, bits);
}

/// Writes the kept entries of a tile. Each thread brings the `ITEMS` entries at its own place in key
/// order; `value_of(item)` is the value of an item of the tile.
template <class Key, class Value, class ValueOf>
__device__ void emit(Tile<Key>& tile, const uint16_t (&entries)[ITEMS], Chain& chain,
                     const Output<Key, Value>& out, ValueOf value_of) {
    // How many are kept before this thread's, in this tile and in those before.
    uint64_t packed = 0, packed_before, packed_all;
#pragma unroll
    for (int i = 0; i < ITEMS; i++) packed += Packed::of(entries[i]);
    typename Tile<Key>::Scan(tile.scan).ExclusiveSum(packed, packed_before, packed_all);
    Totals all = Packed::totals(packed_all);
    if (threadIdx.x < 32) {
        Totals before = chain.look_back(tile.index, all);
        if (threadIdx.x == 0) tile.before = before;
    }
    __syncthreads();

    // Packed together; the first entry of a sector knows the sum that the sector starts from.
    Totals mine = Packed::totals(packed_before);
    int64_t sum = tile.before.sum + mine.sum;
    uint64_t first = tile.before.kept;
#pragma unroll
    for (int i = 0; i < ITEMS; i++) {
        if (!(entries[i] & entry::KEEP)) continue;
        tile.kept[mine.kept] = entries[i];
        uint64_t position = first + mine.kept++;
        if (out.marks != nullptr && position % SECTOR == 0) out.marks[position / SECTOR].sum = sum;
        sum += entry::worth(entries[i]);
    }
    __syncthreads();

    // Written in order, neighbours by neighbours.
    for (unsigned start = threadIdx.x / 32 * 32; start < all.kept; start += THREADS) {
        unsigned place = start + threadIdx.x % 32;
        uint16_t entry = place < all.kept ? tile.kept[place] : 0;
        uint64_t position = first + place;
        if (place < all.kept) {
            Key key = tile.keys[entry & entry::ITEM];
            out.keys[position] = key;
            if constexpr (sizeof(Value) > 1) out.values[position] = value_of(entry & entry::ITEM);
            if (out.inner != nullptr && position % NODE == NODE - 1) {
                out.inner[position / NODE] = key;
                if (position / NODE % NODE == NODE - 1) out.outer[position / (NODE * NODE)] = key;
            }
        }
        if (out.marks != nullptr) {
            set_marks(out.marks, first + start, entry & entry::LIVE, entry & entry::SHADOW);
        }
    }
}

/// What only the end of the last tile knows: lengths, the last fences, what fills up the last nodes.
template <class Key, class Value>
__global__ void finish_kernel(Chain chain, uint64_t tiles, Output<Key, Value> out) {
    Totals all = chain.all(tiles);
    Head head = {all.kept, all.sum, all.tombstones};
    if (threadIdx.x == 0) {
        *out.head = head;
        if (out.figures != nullptr) {
            out.figures->head = head;
            __threadfence_system();
            *static_cast<volatile uint64_t*>(&out.figures->ready) = 1;
        }
        if (out.marks != nullptr && head.len % SECTOR == 0) out.marks[head.len / SECTOR].sum = head.sum;
    }
    if (out.inner == nullptr || head.len == 0) return;
    Key last = out.keys[head.len - 1];
    uint64_t nodes = (head.len + NODE - 1) / NODE;
    uint64_t pad = head.len + threadIdx.x, fence = nodes + threadIdx.x;
    if (pad < nodes * NODE) out.keys[pad] = HIGHEST<Key>;
    if (fence < (nodes + NODE - 1) / NODE * NODE) out.inner[fence] = HIGHEST<Key>;
    if (threadIdx.x == 0 && head.len % NODE != 0) out.inner[nodes - 1] = last;
    if (threadIdx.x == 0 && head.len % (NODE * NODE) != 0) out.outer[(nodes - 1) / NODE] = last;
}

}  // namespace gpulsm
