// Divides the keys of a batch or of a query among shards: those of each shard together, in the order they came.
//
// Every warp has a chunk of keys. It counts those of each shard; a scan over all counts, shard by shard, tells where
// the keys of each chunk go; and the warp puts them there, 32 at a time.
#include "without_iostream.cuh"

#include <cub/device/device_scan.cuh>

#include "dispatch.cuh"
#include "run/warp.cuh"

namespace gpulsm {

/// Keys of a warp.
constexpr int PARTITION_CHUNK = 1024;
/// Keys and values that a lane reads at once, before it needs the first of them.
template <class Key, class Value>
constexpr int PARTITION_ITEMS = sizeof(Key) + sizeof(Value) <= 16 ? 8 : 4;
/// Blocks per multiprocessor, at least.
constexpr int PARTITION_BLOCKS = 4;
/// The most shards.
constexpr int MAX_SHARDS = 256;

/// Returns the shard of a key: the number of splitters that are not greater.
template <class Key>
__device__ __forceinline__ uint32_t shard_of(const Key* splitters, uint32_t count, Key key) {
    uint32_t shard = 0;
    if (count == 0) return 0;
    // All lanes take as many steps.
#pragma unroll 1
    for (uint32_t step = 1u << (31 - __clz(count)); step > 0; step /= 2) {
        uint32_t next = shard + step;
        if (next <= count && splitters[next - 1] <= key) shard = next;
    }
    return shard;
}

/// Copies the splitters to shared memory, by the whole block.
template <class Key>
__device__ __forceinline__ void load_splitters(const Key* splitters, uint32_t count, Key* shared) {
    for (uint32_t i = threadIdx.x; i < count; i += THREADS) shared[i] = read_key(splitters + i);
    __syncthreads();
}

/// Returns which of the lanes have the same shard, of which there are at most 2^`bits`.
__device__ __forceinline__ unsigned lanes_with(uint32_t shard, int bits, unsigned lanes) {
    for (int bit = 0; bit < bits; bit++) {
        unsigned set = __ballot_sync(lanes, shard >> bit & 1);
        lanes &= (shard >> bit & 1) ? set : ~set;
    }
    return lanes;
}

/// Calls `body(at, key, value, shard, peers)` for each key of a warp's chunk, in order, by all lanes at once: those in
/// `peers` have keys of the same shard. Behind the last key there are no peers.
template <class Key, class Value, class Body>
__device__ __forceinline__ void for_each_of_chunk(const Key* keys, const Value* values, uint64_t len, uint64_t chunk,
                                                  const Key* splitters, uint32_t count, Body body) {
    constexpr int ITEMS = PARTITION_ITEMS<Key, Value>;
    constexpr bool HAS_VALUES = sizeof(Value) > 1;
    int bits = 32 - __clz(count);
    uint64_t first = chunk * PARTITION_CHUNK + threadIdx.x % 32;
#pragma unroll 1
    for (int round = 0; round < PARTITION_CHUNK / 32 / ITEMS; round++, first += 32 * ITEMS) {
        Key own[ITEMS];
        Value own_values[ITEMS];
#pragma unroll
        for (int i = 0; i < ITEMS; i++) {
            uint64_t at = first + 32 * i;
            own[i] = at < len ? read_key(keys + at) : 0;
            if constexpr (HAS_VALUES) {
                if (at < len) own_values[i] = __ldg(values + at);
            }
        }
#pragma unroll
        for (int i = 0; i < ITEMS; i++) {
            uint64_t at = first + 32 * i;
            uint32_t shard = shard_of(splitters, count, own[i]);
            unsigned lanes = __ballot_sync(~0u, at < len);
            unsigned peers = lanes_with(shard, bits, ~0u) & lanes;
            body(at, own[i], own_values[i], shard, at < len ? peers : 0);
            __syncwarp();
        }
    }
}

/// Counts the keys of each chunk in each shard: first those of all chunks in the first shard.
template <class Key>
__global__ void __launch_bounds__(THREADS, PARTITION_BLOCKS)
count_by_shard_kernel(const Key* keys, uint64_t len, const Key* splitters, uint32_t shards, uint64_t chunks,
                      uint64_t* counts) {
    __shared__ Key splits[MAX_SHARDS];
    __shared__ uint32_t of_warps[WARPS][MAX_SHARDS];
    load_splitters(splitters, shards - 1, splits);
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    uint64_t chunk = blockIdx.x * static_cast<uint64_t>(WARPS) + warp;
    if (chunk >= chunks) return;
    uint32_t* of_warp = of_warps[warp];
    for (uint32_t shard = threadIdx.x % 32; shard < shards; shard += 32) of_warp[shard] = 0;
    __syncwarp();
    auto count = [&](uint64_t, Key, Nothing, uint32_t shard, unsigned peers) {
        if (lane == __ffs(peers) - 1) of_warp[shard] += __popc(peers);
    };
    for_each_of_chunk(keys, static_cast<const Nothing*>(nullptr), len, chunk, splits, shards - 1, count);
    for (uint32_t shard = threadIdx.x % 32; shard < shards; shard += 32) counts[shard * chunks + chunk] = of_warp[shard];
}

/// Puts keys, and what comes with them, where those of their shard are, and writes where each shard begins. `places`
/// may be null.
template <class Key, class Value>
__global__ void __launch_bounds__(THREADS, PARTITION_BLOCKS)
partition_kernel(const Key* keys, const Value* values, uint64_t len, const Key* splitters, uint32_t shards,
                 uint64_t chunks, const uint64_t* starts, Key* grouped, Value* grouped_values, uint32_t* places,
                 uint64_t* bounds) {
    __shared__ Key splits[MAX_SHARDS];
    __shared__ uint64_t of_warps[WARPS][MAX_SHARDS];
    load_splitters(splitters, shards - 1, splits);
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    uint64_t chunk = blockIdx.x * static_cast<uint64_t>(WARPS) + warp;
    if (chunk >= chunks) return;
    uint64_t* next = of_warps[warp];
    for (uint32_t shard = threadIdx.x % 32; shard < shards; shard += 32) {
        next[shard] = starts[shard * chunks + chunk];
        if (chunk == 0) bounds[shard] = next[shard];
    }
    __syncwarp();
    auto put = [&](uint64_t at, Key key, Value value, uint32_t shard, unsigned peers) {
        int leader = __ffs(peers) - 1;
        uint64_t to = 0;
        if (lane == leader) {
            to = next[shard];
            next[shard] = to + __popc(peers);
        }
        to = __shfl_sync(~0u, to, leader) + __popc(peers & ((1u << lane) - 1));
        if (peers == 0) return;
        grouped[to] = key;
        if constexpr (sizeof(Value) > 1) grouped_values[to] = value;
        if (places != nullptr) places[at] = static_cast<uint32_t>(to);
    };
    for_each_of_chunk(keys, values, len, chunk, splits, shards - 1, put);
}

/// Copies every `step`th key.
template <class Key>
__global__ void __launch_bounds__(THREADS, PARTITION_BLOCKS)
sample_kernel(const Key* keys, uint64_t step, uint64_t count, Key* sample) {
    uint64_t index = blockIdx.x * static_cast<uint64_t>(THREADS) + threadIdx.x;
    if (index < count) sample[index] = read_key(keys + index * step);
}

inline uint64_t chunks_of(uint64_t len) { return (len + PARTITION_CHUNK - 1) / PARTITION_CHUNK; }

}  // namespace gpulsm

using namespace gpulsm;

/// Groups keys, and values if there are any, by shard: the first has those below the first splitter. Writes where each
/// shard begins to `bounds` and, unless that is null, the place of each key to `places`; then there are at most 2^32.
/// If `scratch` is null, only returns how many bytes of it are needed.
GPULSM_EXPORT gpulsm_partition(int key_width, int value_width, void* scratch, uint64_t* scratch_bytes,
                               const void* keys, const void* values, uint64_t len, const void* splitters,
                               int shards, void* grouped, void* grouped_values, uint32_t* places, uint64_t* bounds,
                               cudaStream_t stream) {
    return with_pair(key_width, value_width, [&](auto key, auto value) -> int {
        using Key = typename decltype(key)::type;
        using Value = typename decltype(value)::type;
        if (shards < 1 || shards > MAX_SHARDS) return cudaErrorInvalidValue;
        uint64_t chunks = chunks_of(len), counts = chunks * shards, bytes = counts * sizeof(uint64_t);
        auto starts = static_cast<uint64_t*>(scratch);
        size_t scan_bytes = 0;
        if (cudaError_t error = cub::DeviceScan::ExclusiveSum(nullptr, scan_bytes, starts, counts, stream)) {
            return error;
        }
        if (scratch == nullptr) {
            *scratch_bytes = bytes + scan_bytes;
            return cudaSuccess;
        }
        auto from = static_cast<const Key*>(keys);
        auto splits = static_cast<const Key*>(splitters);
        uint32_t count = static_cast<uint32_t>(shards);
        unsigned blocks = blocks_for(chunks, WARPS);
        count_by_shard_kernel<<<blocks, THREADS, 0, stream>>>(from, len, splits, count, chunks, starts);
        if (cudaError_t error = cudaGetLastError()) return error;
        void* temp = static_cast<char*>(scratch) + bytes;
        if (cudaError_t error = cub::DeviceScan::ExclusiveSum(temp, scan_bytes, starts, counts, stream)) return error;
        partition_kernel<<<blocks, THREADS, 0, stream>>>(from, static_cast<const Value*>(values), len, splits, count,
                                                         chunks, starts, static_cast<Key*>(grouped),
                                                         static_cast<Value*>(grouped_values), places, bounds);
        return cudaGetLastError();
    });
}

/// Copies `count` keys, each `step` after the one before.
GPULSM_EXPORT gpulsm_sample(int key_width, const void* keys, uint64_t step, uint64_t count, void* sample,
                            cudaStream_t stream) {
    return with_key(key_width, [&](auto key) -> int {
        using Key = typename decltype(key)::type;
        sample_kernel<<<blocks_for(count, THREADS), THREADS, 0, stream>>>(static_cast<const Key*>(keys), step, count,
                                                                          static_cast<Key*>(sample));
        return cudaGetLastError();
    });
}
