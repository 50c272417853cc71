// Orders many keys by buckets before they are looked up, so that keys that are looked up at the same time lie in the
// same part of a large dictionary, and brings the answers back.
//
// Both ways a tile of keys is moved at a time: its keys of one bucket lie side by side in the order of buckets, so that
// most of what is read and written is whole sectors. (Single answers scattered to their places would be slower than all
// that is gained.)
#include "without_iostream.cuh"

#include <cub/block/block_scan.cuh>

#include <gpulsm/search.cuh>

#include "dispatch.cuh"

namespace gpulsm {

/// Keys of a tile.
template <class Key>
constexpr int BUCKET_TILE = BUCKET_THREADS * BUCKET_ITEMS<Key>;

/// Returns a node of the search tree of splitters: outer fences of a run at equal distances. The children of node i are
/// 2i and 2i + 1, and the root is 1, so that threads that search side by side mostly read different banks.
template <class Key>
__device__ __forceinline__ Key splitter(const Key* outer, uint32_t fences, uint32_t node, int bits) {
    if (node == 0 || fences == 0) return HIGHEST<Key>;
    int depth = 31 - __clz(node);
    uint64_t rank = static_cast<uint64_t>(2 * (node - (1u << depth)) + 1) << (bits - 1 - depth);
    uint64_t position = rank * fences >> bits;
    return read_key(outer + (position == 0 ? 0 : position - 1));
}

/// Writes the bucket of every key, and counts the keys of each of the 2^`bits` buckets.
template <class Key>
__global__ void __launch_bounds__(BUCKET_THREADS, FIND_BLOCKS<Key>)
find_buckets_kernel(const Key* outer, const Head* head, const Key* keys, uint32_t len, int bits, uint32_t* buckets,
                    uint32_t* totals) {
    constexpr int ITEMS = FIND_ITEMS, TILE = BUCKET_THREADS * ITEMS;
    extern __shared__ __align__(16) unsigned char shared[];
    uint32_t count = 1u << bits, fences = outer_fences(__ldg(&head->len));
    Key* splitters = reinterpret_cast<Key*>(shared);
    uint32_t* counts = reinterpret_cast<uint32_t*>(splitters + count);
    for (uint32_t node = threadIdx.x; node < count; node += BUCKET_THREADS) {
        splitters[node] = splitter(outer, fences, node, bits);
        counts[node] = 0;
    }
    __syncthreads();
    for (uint32_t first = blockIdx.x * TILE; first < len; first += gridDim.x * TILE) {
        Key own[ITEMS];
        uint32_t nodes[ITEMS];
#pragma unroll
        for (int i = 0; i < ITEMS; i++) {
            uint32_t at = first + i * BUCKET_THREADS + threadIdx.x;
            own[i] = at < len ? read_key(keys + at) : 0;
            nodes[i] = 1;
        }
        for (int step = 0; step < bits; step++) {
#pragma unroll
            for (int i = 0; i < ITEMS; i++) nodes[i] = 2 * nodes[i] + (splitters[nodes[i]] < own[i]);
        }
#pragma unroll
        for (int i = 0; i < ITEMS; i++) {
            uint32_t at = first + i * BUCKET_THREADS + threadIdx.x;
            if (at >= len) continue;
            buckets[at] = nodes[i] - count;
            atomicAdd(counts + nodes[i] - count, 1);
        }
    }
    __syncthreads();
    for (uint32_t bucket = threadIdx.x; bucket < count; bucket += BUCKET_THREADS) {
        if (counts[bucket] != 0) atomicAdd(totals + bucket, counts[bucket]);
    }
}

/// Calls `body(bucket, sum)` for every bucket, by the whole block, with the sum of `number(bucket)` over all before.
template <class Number, class Body>
__device__ __forceinline__ void with_sums_before(uint32_t count, Number number, Body body) {
    using Scan = cub::BlockScan<uint32_t, BUCKET_THREADS, cub::BLOCK_SCAN_WARP_SCANS>;
    __shared__ typename Scan::TempStorage temp;
    uint32_t sum = 0;
#pragma unroll 1
    for (uint32_t first = 0; first < count; first += BUCKET_THREADS) {
        uint32_t bucket = first + threadIdx.x, before, all;
        Scan(temp).ExclusiveSum(bucket < count ? number(bucket) : 0, before, all);
        if (bucket < count) body(bucket, sum + before);
        sum += all;
        __syncthreads();
    }
}

/// Writes the keys in the order of their buckets, and replaces each bucket of `places` by the place of its key there.
/// Keys of one bucket are in no particular order.
template <class Key>
__global__ void __launch_bounds__(BUCKET_THREADS, BUCKET_BLOCKS)
order_by_bucket_kernel(const Key* keys, uint32_t len, int bits, const uint32_t* totals, uint32_t* taken,
                       uint32_t* places, Key* ordered) {
    constexpr int ITEMS = BUCKET_ITEMS<Key>, TILE = BUCKET_TILE<Key>;
    extern __shared__ __align__(16) unsigned char shared[];
    uint32_t count = 1u << bits;
    Key* tile = reinterpret_cast<Key*>(shared);
    uint32_t* firsts = reinterpret_cast<uint32_t*>(tile + TILE);  // where each bucket begins
    uint32_t* starts = firsts + count;                            // …in the tile, once its keys there are counted
    uint32_t* bases = starts + count;                             // places of the tile's keys, less their slots
    uint16_t* tile_buckets = reinterpret_cast<uint16_t*>(bases + count);
    with_sums_before(
        count, [&](uint32_t bucket) { return totals[bucket]; },
        [&](uint32_t bucket, uint32_t sum) { firsts[bucket] = sum; });
    for (uint32_t first = blockIdx.x * TILE; first < len; first += gridDim.x * TILE) {
#pragma unroll 1
        for (uint32_t bucket = threadIdx.x; bucket < count; bucket += BUCKET_THREADS) starts[bucket] = 0;
        __syncthreads();
        // Count the keys of each bucket, and number them.
        Key own[ITEMS];
        uint32_t numbered[ITEMS];  // buckets, and above them numbers
#pragma unroll
        for (int i = 0; i < ITEMS; i++) {
            uint32_t at = first + i * BUCKET_THREADS + threadIdx.x;
            numbered[i] = at < len ? places[at] : 0;
            own[i] = at < len ? read_key(keys + at) : 0;
        }
#pragma unroll
        for (int i = 0; i < ITEMS; i++) {
            uint32_t at = first + i * BUCKET_THREADS + threadIdx.x;
            if (at < len) numbered[i] |= atomicAdd(starts + numbered[i], 1) << MAX_BUCKET_BITS;
        }
        __syncthreads();
        // Take the next places of each bucket.
        with_sums_before(
            count,
            [&](uint32_t bucket) {
                uint32_t keys = starts[bucket];
                bases[bucket] = firsts[bucket] + (keys == 0 ? 0 : atomicAdd(taken + bucket, keys));
                return keys;
            },
            [&](uint32_t bucket, uint32_t sum) {
                starts[bucket] = sum;
                bases[bucket] -= sum;
            });
        // Order the tile, then write it: neighbours mostly go to neighbouring places.
#pragma unroll
        for (int i = 0; i < ITEMS; i++) {
            uint32_t at = first + i * BUCKET_THREADS + threadIdx.x;
            if (at >= len) continue;
            uint32_t bucket = numbered[i] % (1 << MAX_BUCKET_BITS);
            uint32_t slot = starts[bucket] + (numbered[i] >> MAX_BUCKET_BITS);
            tile[slot] = own[i];
            tile_buckets[slot] = static_cast<uint16_t>(bucket);
            places[at] = bases[bucket] + slot;
        }
        __syncthreads();
#pragma unroll
        for (int i = 0; i < ITEMS; i++) {
            uint32_t slot = i * BUCKET_THREADS + threadIdx.x;
            if (first + slot < len) ordered[bases[tile_buckets[slot]] + slot] = tile[slot];
        }
    }
}

/// Brings answers back from the order of buckets. A block reads those of a tile, which lie side by side in each bucket:
/// the L1 cache has them until all are read.
template <class Value>
__global__ void __launch_bounds__(BUCKET_THREADS, BUCKET_BLOCKS)
restore_order_kernel(const uint32_t* places, uint32_t len, const Value* ordered_values, const uint8_t* ordered_found,
                     Value* values, uint8_t* found) {
    constexpr int ITEMS = RESTORE_ITEMS, TILE = BUCKET_THREADS * ITEMS;
    for (uint32_t first = blockIdx.x * TILE; first < len; first += gridDim.x * TILE) {
        uint32_t at[ITEMS], from[ITEMS];
#pragma unroll
        for (int i = 0; i < ITEMS; i++) {
            at[i] = first + i * BUCKET_THREADS + threadIdx.x;
            from[i] = at[i] < len ? __ldg(places + at[i]) : 0;
        }
        uint8_t is_found[ITEMS];
#pragma unroll
        for (int i = 0; i < ITEMS; i++) is_found[i] = __ldg(ordered_found + from[i]);
#pragma unroll
        for (int i = 0; i < ITEMS; i++) {
            if (at[i] < len) found[at[i]] = is_found[i];
        }
        if constexpr (sizeof(Value) > 1) {
            if (values == nullptr) continue;
            Value own[ITEMS];
#pragma unroll
            for (int i = 0; i < ITEMS; i++) own[i] = __ldg(ordered_values + from[i]);
#pragma unroll
            for (int i = 0; i < ITEMS; i++) {
                if (at[i] < len) values[at[i]] = own[i];
            }
        }
    }
}

/// Returns how many blocks process `len` keys in tiles, but at most as many as can run at once.
inline unsigned blocks_for_tiles(uint64_t len, int tile, int blocks_per_multiprocessor) {
    return blocks_at_once((len + tile - 1) / tile * THREADS, blocks_per_multiprocessor);
}

}  // namespace gpulsm

using namespace gpulsm;

/// Writes the keys in the order of 2^`bits` buckets, and the place of each there. The buckets are equal parts of a run,
/// from its first key to its last, or nearly. There are at most 2^31 keys, and `counts` is two zeros for each bucket.
GPULSM_EXPORT gpulsm_order_by_bucket(int key_width, const RunView<char, char>* run, const void* keys, uint64_t len,
                                     int bits, uint32_t* counts, void* ordered, uint32_t* places,
                                     cudaStream_t stream) {
    return with_key(key_width, [&](auto key) -> int {
        using Key = typename decltype(key)::type;
        if (bits < 1 || bits > MAX_BUCKET_BITS || len > 1ull << 31) return cudaErrorInvalidValue;
        constexpr int TILE = BUCKET_TILE<Key>;
        auto outer = reinterpret_cast<const Key*>(run->outer);
        auto from = static_cast<const Key*>(keys);
        uint32_t number = static_cast<uint32_t>(len), *totals = counts, *taken = counts + (1 << bits);

        size_t bytes = (sizeof(Key) + sizeof(uint32_t)) << bits;
        unsigned blocks = blocks_for_tiles(len, BUCKET_THREADS * FIND_ITEMS, FIND_BLOCKS<Key>);
        find_buckets_kernel<<<blocks, BUCKET_THREADS, bytes, stream>>>(outer, run->head, from, number, bits, places,
                                                                       totals);
        if (cudaError_t error = cudaGetLastError()) return error;

        auto bytes_for = [](int bits) {
            return TILE * (sizeof(Key) + sizeof(uint16_t)) + (3 * sizeof(uint32_t) << bits);
        };
        bytes = bytes_for(bits);
        // Always the most: another thread may be about to launch it with more buckets.
        if (cudaError_t error = allow_shared(order_by_bucket_kernel<Key>, bytes_for(MAX_BUCKET_BITS))) return error;
        blocks = blocks_for_tiles(len, TILE, BUCKET_BLOCKS);
        order_by_bucket_kernel<<<blocks, BUCKET_THREADS, bytes, stream>>>(from, number, bits, totals, taken, places,
                                                                          static_cast<Key*>(ordered));
        return cudaGetLastError();
    });
}

/// Brings answers, of which there are at most 2^31, back to the order of their questions. `values` may be null.
GPULSM_EXPORT gpulsm_restore_order(int value_width, const uint32_t* places, uint64_t len, const void* ordered_values,
                                   const uint8_t* ordered_found, void* values, uint8_t* found, cudaStream_t stream) {
    return with_pair(4, value_width, [&](auto, auto value) -> int {
        using Value = typename decltype(value)::type;
        if (len > 1ull << 31) return cudaErrorInvalidValue;
        unsigned blocks = blocks_for_tiles(len, BUCKET_THREADS * RESTORE_ITEMS, BUCKET_BLOCKS);
        restore_order_kernel<<<blocks, BUCKET_THREADS, 0, stream>>>(
            places, static_cast<uint32_t>(len), static_cast<const Value*>(ordered_values), ordered_found,
            static_cast<Value*>(values), found);
        return cudaGetLastError();
    });
}
