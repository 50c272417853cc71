// Divides the keys of a batch or of a query among shards: those of each shard together, in the order they came.
//
// Every block has a tile of keys. It counts those of each shard; a scan over all counts, shard by shard, tells where
// the keys of each tile go; and the block orders its tile by shard in shared memory and puts it there.
#include "without_iostream.cuh"

#include <cub/block/block_scan.cuh>
#include <cub/device/device_scan.cuh>

#include <cstring>

#include "dispatch.cuh"

namespace gpulsm {

/// Keys of a thread.
constexpr int PARTITION_ITEMS = 4;
/// Keys of a tile.
constexpr int PARTITION_TILE = THREADS * PARTITION_ITEMS;
/// Blocks per multiprocessor, at least.
constexpr int PARTITION_BLOCKS = 4;
/// The most shards: each has a thread of a block.
constexpr int MAX_SHARDS = THREADS;
/// The most shards whose keys a thread counts in the bytes of one register; and whose lanes are compared bit by bit.
constexpr int FEW_SHARDS = 8;

/// The most counts that one block adds up, and its threads and counts per thread.
constexpr uint64_t FEW_COUNTS = 1 << 15;
constexpr int SCAN_THREADS = 1024;
constexpr int SCAN_ITEMS = 16;

/// One for each shard, or for each but one: few are parameters of a kernel, many are in the GPU's memory.
template <class T>
struct OfShards {
    static constexpr uint32_t FEW = 16;
    const T* many;
    T few[FEW];

    /// Takes those that `here` has in the host's memory, if they are few, or `there` in the GPU's.
    OfShards(const void* here, const void* there, uint32_t count) : many(static_cast<const T*>(there)) {
        if (count <= FEW) memcpy(few, here, count * sizeof(T));
    }

    /// Copies all to shared memory, by the whole block.
    __device__ __forceinline__ void load(uint32_t count, T* shared) const {
        for (uint32_t i = threadIdx.x; i < count; i += THREADS) shared[i] = count <= FEW ? few[i] : many[i];
    }
};

/// Where the keys of a shard are put, and what comes with them, if the first key of all shards were put there.
struct ShardOutput {
    void* keys;
    void* values;
};

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

/// Returns which lanes have the same shard.
__device__ __forceinline__ unsigned lanes_with(uint32_t shard, uint32_t shards) {
    if (shards > FEW_SHARDS) return __match_any_sync(~0u, shard);
    unsigned lanes = ~0u;
    for (uint32_t bit = 1; bit < shards; bit *= 2) {
        unsigned set = __ballot_sync(~0u, shard & bit);
        lanes &= (shard & bit) ? set : ~set;
    }
    return lanes;
}

/// Returns where in a tile the `item`th key of this thread is: each warp has a part of the tile, and reads 32 keys at a
/// time.
__device__ __forceinline__ uint32_t place_in_tile(int item) {
    return (threadIdx.x / 32 * PARTITION_ITEMS + item) * 32 + threadIdx.x % 32;
}

/// Counts the keys of this warp in each of a few shards, in the bytes of a register, and adds them to `counts`. Keys
/// behind the last have no shard.
__device__ __forceinline__ void count_in_few(const int* of_items, uint32_t shards, uint32_t* counts) {
    uint64_t of_lane = 0;
#pragma unroll
    for (int i = 0; i < PARTITION_ITEMS; i++) {
        if (of_items[i] >= 0) of_lane += 1ull << (8 * of_items[i]);
    }
    // Sums of bytes need more than a byte: those at even places, and those at odd ones.
    constexpr uint64_t EVEN = 0x00ff00ff00ff00ff;
    uint64_t even = of_lane & EVEN, odd = of_lane >> 8 & EVEN;
    for (int lanes = 16; lanes > 0; lanes /= 2) {
        even += __shfl_xor_sync(~0u, even, lanes);
        odd += __shfl_xor_sync(~0u, odd, lanes);
    }
    uint32_t shard = threadIdx.x % 32;
    if (shard < shards) atomicAdd(counts + shard, (shard % 2 == 0 ? even : odd) >> (16 * (shard / 2)) & 0xffff);
}

/// Counts the keys of each tile in each shard: first those of all tiles in the first shard.
template <class Key>
__global__ void __launch_bounds__(THREADS, PARTITION_BLOCKS)
count_by_shard_kernel(const Key* keys, uint64_t len, const __grid_constant__ OfShards<Key> splitters, uint32_t shards,
                      uint64_t* counts) {
    __shared__ Key splits[MAX_SHARDS];
    __shared__ uint32_t of_tile[MAX_SHARDS];
    of_tile[threadIdx.x] = 0;
    splitters.load(shards - 1, splits);
    uint64_t first = blockIdx.x * static_cast<uint64_t>(PARTITION_TILE);
    Key own[PARTITION_ITEMS];
    int of_items[PARTITION_ITEMS];
#pragma unroll
    for (int i = 0; i < PARTITION_ITEMS; i++) {
        uint64_t at = first + place_in_tile(i);
        own[i] = at < len ? read_key(keys + at) : 0;
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < PARTITION_ITEMS; i++) {
        bool is_key = first + place_in_tile(i) < len;
        of_items[i] = is_key ? static_cast<int>(shard_of(splits, shards - 1, own[i])) : -1;
    }
    if (shards <= FEW_SHARDS) {
        count_in_few(of_items, shards, of_tile);
    } else {
#pragma unroll
        for (int i = 0; i < PARTITION_ITEMS; i++) {
            unsigned peers = __match_any_sync(~0u, of_items[i]);
            bool is_first = threadIdx.x % 32 == __ffs(peers) - 1;
            if (of_items[i] >= 0 && is_first) atomicAdd(of_tile + of_items[i], __popc(peers));
        }
    }
    __syncthreads();
    uint32_t shard = threadIdx.x;
    if (shard < shards) counts[shard * static_cast<uint64_t>(gridDim.x) + blockIdx.x] = of_tile[shard];
}

/// Adds up a few counts, each to those before it, and writes where the keys of each shard start.
__global__ void __launch_bounds__(SCAN_THREADS)
scan_counts_kernel(uint64_t* counts, uint32_t len, uint64_t tiles, uint32_t shards, uint64_t* bounds) {
    using Scan = cub::BlockScan<uint64_t, SCAN_THREADS, cub::BLOCK_SCAN_WARP_SCANS>;
    __shared__ typename Scan::TempStorage temp;
    uint64_t before = 0;
    for (uint32_t first = threadIdx.x * SCAN_ITEMS; first - threadIdx.x * SCAN_ITEMS < len;
         first += SCAN_THREADS * SCAN_ITEMS) {
        uint64_t own[SCAN_ITEMS], sum;
#pragma unroll
        for (int i = 0; i < SCAN_ITEMS; i++) own[i] = first + i < len ? counts[first + i] : 0;
        Scan(temp).ExclusiveSum(own, own, sum);
#pragma unroll
        for (int i = 0; i < SCAN_ITEMS; i++) {
            if (first + i < len) counts[first + i] = before + own[i];
        }
        before += sum;
        __syncthreads();
    }
    if (threadIdx.x < shards) bounds[threadIdx.x] = counts[threadIdx.x * tiles];
}

/// Writes where the keys of each shard start.
__global__ void __launch_bounds__(MAX_SHARDS)
shard_starts_kernel(const uint64_t* starts, uint64_t tiles, uint32_t shards, uint64_t* bounds) {
    if (threadIdx.x < shards) bounds[threadIdx.x] = starts[threadIdx.x * tiles];
}

/// A tile, ordered by shard.
template <class Key, class Value>
struct PartitionTile {
    Key keys[PARTITION_TILE];
    /// What comes with the keys, where anything does.
    Value values[sizeof(Value) > 1 ? PARTITION_TILE : 1];
    uint8_t shards[PARTITION_TILE];
};

/// Where the keys of a tile go.
struct TilePlan {
    using Scan = cub::BlockScan<uint32_t, THREADS>;
    /// First how many keys of each shard each warp has, and then where in the ordered tile they begin.
    uint32_t of_warps[WARPS][MAX_SHARDS];
    /// What is added to the place of a key in the ordered tile to get its place among all.
    uint64_t offsets[MAX_SHARDS];
    Scan::TempStorage scan;

    /// Finds where the keys of each shard and warp begin, by the whole block; `starts` has those of all tiles.
    __device__ __forceinline__ void find_begins(const uint64_t* starts, uint32_t shards) {
        uint32_t shard = threadIdx.x, count = 0, begin;
        if (shard < shards) {
            for (int warp = 0; warp < WARPS; warp++) count += of_warps[warp][shard];
        }
        Scan(scan).ExclusiveSum(count, begin);
        if (shard >= shards) return;
        offsets[shard] = starts[shard * static_cast<uint64_t>(gridDim.x) + blockIdx.x] - begin;
        for (int warp = 0; warp < WARPS; warp++) {
            uint32_t of_warp = of_warps[warp][shard];
            of_warps[warp][shard] = begin;
            begin += of_warp;
        }
    }
};

/// Puts keys, and what comes with them, where those of their shard are. `places` may be null.
template <class Key, class Value>
__global__ void __launch_bounds__(THREADS, PARTITION_BLOCKS)
partition_kernel(const Key* keys, const Value* values, uint64_t len, const __grid_constant__ OfShards<Key> splitters,
                 uint32_t shards, const uint64_t* starts, const __grid_constant__ OfShards<ShardOutput> outputs,
                 uint32_t* places) {
    constexpr bool HAS_VALUES = sizeof(Value) > 1;
    extern __shared__ __align__(16) char shared[];
    auto& tile = reinterpret_cast<PartitionTile<Key, Value>&>(shared);
    Key* splits = tile.keys;  // Needed no more when the tile is written.
    __shared__ TilePlan plan;
    __shared__ ShardOutput few_outputs[OfShards<ShardOutput>::FEW];
    bool is_few = shards <= OfShards<ShardOutput>::FEW;
    if (is_few) outputs.load(shards, few_outputs);
    const ShardOutput* to_shards = is_few ? few_outputs : outputs.many;
    int lane = threadIdx.x % 32;
    uint32_t* of_warp = plan.of_warps[threadIdx.x / 32];
    uint64_t first = blockIdx.x * static_cast<uint64_t>(PARTITION_TILE);
    Key own[PARTITION_ITEMS];
    Value own_values[PARTITION_ITEMS];
    uint32_t of_items[PARTITION_ITEMS], ranks[PARTITION_ITEMS];
    splitters.load(shards - 1, splits);
    for (uint32_t shard = lane; shard < shards; shard += 32) of_warp[shard] = 0;
#pragma unroll
    for (int i = 0; i < PARTITION_ITEMS; i++) {
        uint64_t at = first + place_in_tile(i);
        own[i] = at < len ? read_key(keys + at) : 0;
        if constexpr (HAS_VALUES) {
            if (at < len) own_values[i] = __ldg(values + at);
        }
    }
    __syncthreads();
    // The rank of each key among those of its warp in the same shard.
#pragma unroll
    for (int i = 0; i < PARTITION_ITEMS; i++) {
        bool is_key = first + place_in_tile(i) < len;
        uint32_t shard = of_items[i] = shard_of(splits, shards - 1, own[i]);
        unsigned peers = lanes_with(shard, shards) & __ballot_sync(~0u, is_key);
        ranks[i] = of_warp[shard] + __popc(peers & ((1u << lane) - 1));
        __syncwarp();
        if (is_key && lane == __ffs(peers) - 1) of_warp[shard] = ranks[i] + __popc(peers);
        __syncwarp();
    }
    __syncthreads();
    plan.find_begins(starts, shards);
    __syncthreads();
#pragma unroll
    for (int i = 0; i < PARTITION_ITEMS; i++) {
        uint64_t at = first + place_in_tile(i);
        if (at >= len) continue;
        uint32_t shard = of_items[i], to = of_warp[shard] + ranks[i];
        tile.keys[to] = own[i];
        if constexpr (HAS_VALUES) tile.values[to] = own_values[i];
        tile.shards[to] = static_cast<uint8_t>(shard);
        if (places != nullptr) places[at] = static_cast<uint32_t>(plan.offsets[shard] + to);
    }
    __syncthreads();
    uint32_t count = static_cast<uint32_t>(min(static_cast<uint64_t>(PARTITION_TILE), len - first));
    for (uint32_t i = threadIdx.x; i < count; i += THREADS) {
        uint32_t shard = tile.shards[i];
        uint64_t to = plan.offsets[shard] + i;
        static_cast<Key*>(to_shards[shard].keys)[to] = tile.keys[i];
        if constexpr (HAS_VALUES) static_cast<Value*>(to_shards[shard].values)[to] = tile.values[i];
    }
}

/// Copies every `step`th key.
template <class Key>
__global__ void __launch_bounds__(THREADS, PARTITION_BLOCKS)
sample_kernel(const Key* keys, uint64_t step, uint64_t count, Key* sample) {
    uint64_t index = blockIdx.x * static_cast<uint64_t>(THREADS) + threadIdx.x;
    if (index < count) sample[index] = read_key(keys + index * step);
}

inline uint64_t tiles_of(uint64_t len) { return (len + PARTITION_TILE - 1) / PARTITION_TILE; }

}  // namespace gpulsm

using namespace gpulsm;

/// Counts the keys of each shard: the first has those below the first splitter. Splitters are in the host's memory and,
/// if there are more than 16 shards, in the GPU's. Writes where each shard would begin if all were together to
/// `bounds`, which may be in the host's memory, and to `scratch` what `gpulsm_partition` needs. If `scratch` is null,
/// only returns how many bytes of it are needed.
GPULSM_EXPORT gpulsm_count_by_shard(int key_width, void* scratch, uint64_t* scratch_bytes, const void* keys,
                                    uint64_t len, const void* splitters, const void* splitters_there, int shards,
                                    uint64_t* bounds, cudaStream_t stream) {
    return with_key(key_width, [&](auto key) -> int {
        using Key = typename decltype(key)::type;
        if (shards < 1 || shards > MAX_SHARDS) return cudaErrorInvalidValue;
        uint64_t tiles = tiles_of(len), counts = tiles * shards, bytes = counts * sizeof(uint64_t);
        auto starts = static_cast<uint64_t*>(scratch);
        bool is_few = counts <= FEW_COUNTS;
        size_t scan_bytes = 0;
        if (!is_few) {
            cudaError_t error = cub::DeviceScan::ExclusiveSum(nullptr, scan_bytes, starts, counts, stream);
            if (error != cudaSuccess) return error;
        }
        if (scratch == nullptr) {
            *scratch_bytes = bytes + scan_bytes;
            return cudaSuccess;
        }
        uint32_t count = static_cast<uint32_t>(shards);
        count_by_shard_kernel<<<static_cast<unsigned>(tiles), THREADS, 0, stream>>>(
            static_cast<const Key*>(keys), len, OfShards<Key>(splitters, splitters_there, count - 1), count, starts);
        if (cudaError_t error = cudaGetLastError()) return error;
        if (is_few) {
            scan_counts_kernel<<<1, SCAN_THREADS, 0, stream>>>(starts, static_cast<uint32_t>(counts), tiles, count,
                                                               bounds);
            return cudaGetLastError();
        }
        void* temp = static_cast<char*>(scratch) + bytes;
        if (cudaError_t error = cub::DeviceScan::ExclusiveSum(temp, scan_bytes, starts, counts, stream)) return error;
        shard_starts_kernel<<<1, MAX_SHARDS, 0, stream>>>(starts, tiles, count, bounds);
        return cudaGetLastError();
    });
}

/// Puts keys that were counted, and values if there are any, where the output of their shard is; and, unless that is
/// null, writes the place of each key among all to `places`: then there are at most 2^32. Splitters and outputs are in
/// the host's memory and, if there are more than 16 shards, in the GPU's.
GPULSM_EXPORT gpulsm_partition(int key_width, int value_width, const void* scratch, const void* keys,
                               const void* values, uint64_t len, const void* splitters, const void* splitters_there,
                               int shards, const void* outputs, const void* outputs_there, uint32_t* places,
                               cudaStream_t stream) {
    return with_pair(key_width, value_width, [&](auto key, auto value) -> int {
        using Key = typename decltype(key)::type;
        using Value = typename decltype(value)::type;
        if (shards < 1 || shards > MAX_SHARDS) return cudaErrorInvalidValue;
        unsigned tiles = static_cast<unsigned>(tiles_of(len));
        uint32_t count = static_cast<uint32_t>(shards);
        partition_kernel<<<tiles, THREADS, sizeof(PartitionTile<Key, Value>), stream>>>(
            static_cast<const Key*>(keys), static_cast<const Value*>(values), len,
            OfShards<Key>(splitters, splitters_there, count - 1), count, static_cast<const uint64_t*>(scratch),
            OfShards<ShardOutput>(outputs, outputs_there, count), places);
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
