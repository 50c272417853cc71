// Removes duplicates from a sorted batch: of equal keys the last one is kept.
#include "dispatch.cuh"
#include "run/emit.cuh"

namespace gpulsm {

/// Writes the fences of a sorted batch as if it had no duplicates, and sets a flag if it has any. Each warp reads a
/// contiguous part of the batch, 16 bytes per lane at a time; the allocation extends that far past the last key.
template <class Key>
__global__ void __launch_bounds__(THREADS)
fence_kernel(const Key* keys, uint64_t len, Key* inner, Key* outer, unsigned* has_duplicates) {
    using Quad = std::conditional_t<sizeof(Key) == 4, uint4, ulonglong2>;
    constexpr unsigned WIDTH = sizeof(Quad) / sizeof(Key), CHUNK = 32 * WIDTH;
    union Chunk {
        Quad quad;
        Key keys[WIDTH];
    };
    unsigned lane = threadIdx.x % 32;
    uint64_t warp = blockIdx.x * static_cast<uint64_t>(WARPS) + threadIdx.x / 32;
    uint64_t first = warp * CHUNK * FENCE_ITEMS + lane * WIDTH;
    Chunk mine[FENCE_ITEMS];
#pragma unroll
    for (int i = 0; i < FENCE_ITEMS; i++) {
        uint64_t position = first + i * CHUNK;
        if (position < len) mine[i].quad = *reinterpret_cast<const Quad*>(keys + position);
    }
    uint64_t end = first + FENCE_ITEMS * CHUNK;  // of the last lane's keys, where those of the next warp begin
    Key next_warps = lane == 31 && end - lane * WIDTH < len ? keys[end - lane * WIDTH] : 0;
    bool is_duplicated = false;
#pragma unroll
    for (int i = 0; i < FENCE_ITEMS; i++) {
        uint64_t position = first + i * CHUNK;
        Key next = __shfl_down_sync(~0u, mine[i].keys[0], 1);
        constexpr int LAST = FENCE_ITEMS - 1;
        Key next_chunks = i < LAST ? __shfl_sync(~0u, mine[i < LAST ? i + 1 : i].keys[0], 0) : next_warps;
        if (lane == 31) next = next_chunks;
#pragma unroll
        for (unsigned k = 0; k < WIDTH; k++) {
            Key after = k + 1 < WIDTH ? mine[i].keys[k + 1 < WIDTH ? k + 1 : k] : next;
            if (position + k + 1 < len && mine[i].keys[k] == after) is_duplicated = true;
        }
        uint64_t last = position + WIDTH - 1;
        if (last >= len || last % NODE != NODE - 1 || inner == nullptr) continue;
        inner[last / NODE] = mine[i].keys[WIDTH - 1];
        if (last % (NODE * NODE) == NODE * NODE - 1) outer[last / (NODE * NODE)] = mine[i].keys[WIDTH - 1];
    }
    if (is_duplicated) *has_duplicates = 1;
}

/// Loads the keys of a tile into shared memory, and the one after it if `seen` says that there is one. Issues all loads
/// before the first store.
template <int PER_THREAD, class Key>
__device__ __forceinline__ void load_keys(const Key* keys, unsigned tile_len, unsigned seen, Key* tile) {
    Key mine[PER_THREAD];
#pragma unroll
    for (int i = 0; i < PER_THREAD; i++) {
        unsigned place = i * THREADS + threadIdx.x;
        if (place < tile_len) mine[i] = keys[place];
    }
    if (threadIdx.x == 0 && seen > tile_len) tile[tile_len] = keys[tile_len];
#pragma unroll
    for (int i = 0; i < PER_THREAD; i++) {
        unsigned place = i * THREADS + threadIdx.x;
        if (place < tile_len) tile[place] = mine[i];
    }
}

/// Keeps the last of equal keys of a sorted batch. If `fence_kernel` found no duplicates, only the end of the run
/// remains to be written.
///
/// The batch may lie in the output already. Then entries only move towards the front, and no tile writes before all
/// tiles before it have read theirs.
template <int PER_THREAD, class Key, class Value>
__global__ void __launch_bounds__(THREADS, sizeof(Value) > 8 ? 3 : 4)
dedup_kernel(const Key* keys, const Value* values, uint64_t len, const unsigned* has_duplicates, Chain chain,
             RunOutput<Key, Value> out) {
    if (has_duplicates != nullptr && *has_duplicates == 0) {
        if (chain.is_last()) finish({len, static_cast<int64_t>(len), 0, keys[len - 1]}, out);
        return;
    }
    constexpr unsigned TILE = THREADS * PER_THREAD;
    static_assert(PER_THREAD <= 32, "each iteration has a lane");
    __shared__ Tally<PER_THREAD> tally;
    __shared__ Key tile[TILE + 1];
    __shared__ unsigned last_place;
    uint64_t first = chain.tile() * TILE;
    unsigned tile_len = static_cast<unsigned>(min(static_cast<uint64_t>(TILE), len - first));
    unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;

    // Load the keys of the tile and the next one.
    unsigned seen = static_cast<unsigned>(min(static_cast<uint64_t>(TILE + 1), len - first));
    load_keys<PER_THREAD>(keys + first, tile_len, seen, tile);
    if (threadIdx.x == 0) last_place = 0;
    __syncthreads();

    // Find which keys are kept, how many per warp and iteration, and which is the last. Values that others may
    // overwrite are read before waiting for the tiles before this one.
    unsigned kept = 0, of_lane = 0;  // a bit for each iteration; for each lane
    Value values_of_mine[PER_THREAD];
#pragma unroll
    for (int i = 0; i < PER_THREAD; i++) {
        unsigned place = i * THREADS + threadIdx.x;
        bool keep = place < tile_len && (place + 1 == seen || tile[place] != tile[place + 1]);
        if (keep) values_of_mine[i] = value_at(values, first + place);
        unsigned of_warp = __ballot_sync(~0u, keep);
        if (lane == i) of_lane = of_warp;
        kept |= static_cast<unsigned>(keep) << i;
    }
    if (lane < PER_THREAD) tally.counts[lane * WARPS + warp] = pack_counts(of_lane, of_lane, 0);
    unsigned some = __ballot_sync(~0u, of_lane != 0);
    if (some != 0 && lane == 31 - __clz(some)) {
        atomicMax(&last_place, lane * THREADS + warp * 32 + 31 - __clz(of_lane));
    }
    __syncthreads();  // All entries are read…

    // Find how many are kept before: in this tile and in those before it.
    if (warp == 0) {
        Totals own = unpack_counts(exclusive_sum(tally.counts));
        own.last = tile[last_place];
        __threadfence();  // …before other tiles see the totals…
        Totals before = chain.look_back(own);
        __threadfence();  // …and those of other tiles are seen before anything is written.
        if (lane == 0) tally.before = before;
        if (chain.is_last()) finish(before + own, out);
    }
    __syncthreads();

    // Write the entries that are kept, with their fences.
    uint64_t base = tally.before.kept;
#pragma unroll
    for (int i = 0; i < PER_THREAD; i++) {
        unsigned of_warp = __ballot_sync(~0u, kept >> i & 1);
        if (!(kept >> i & 1)) continue;
        unsigned before = static_cast<unsigned>(tally.counts[i * WARPS + warp] & 0xfffff);
        uint64_t position = base + before + __popc(of_warp & ((1u << lane) - 1));
        Key key = tile[i * THREADS + threadIdx.x];
        out.keys[position] = key;
        if constexpr (sizeof(Value) > 1) out.values[position] = values_of_mine[i];
        write_fences(out, position, key);
    }
}

/// Returns the number of tiles in which duplicates of a batch are removed.
uint64_t dedup_tiles(int key_width, int value_width, uint64_t len) {
    uint64_t tile = THREADS * (len <= FEW_ENTRIES ? FEW_ITEMS : dedup_items(key_width, value_width));
    return (len + tile - 1) / tile;
}

}  // namespace gpulsm

using namespace gpulsm;

/// Returns the bytes of zeroed memory that `gpulsm_dedup` needs: a chain, and the flag for duplicates.
extern "C" uint64_t gpulsm_dedup_scratch(int key_width, int value_width, uint64_t len) {
    return Chain::bytes_for(dedup_tiles(key_width, value_width, len)) + sizeof(unsigned);
}

/// Removes duplicates from a sorted batch of at least one key, in place if it lies in the output.
GPULSM_EXPORT gpulsm_dedup(int key_width, int value_width, const void* keys, const void* values, uint64_t len,
                           void* zeros, const RunOutput<char, char>* out, cudaStream_t stream) {
    return with_pair(key_width, value_width, [&](auto key, auto value) -> int {
        using Key = typename decltype(key)::type;
        using Value = typename decltype(value)::type;
        constexpr int MANY = dedup_items(sizeof(Key), std::is_empty_v<Value> ? 0 : sizeof(Value));
        unsigned tiles = static_cast<unsigned>(dedup_tiles(key_width, value_width, len));
        auto* typed_keys = static_cast<const Key*>(keys);
        // A long batch in its final place needs no moves unless it has duplicates.
        unsigned* has_duplicates = nullptr;
        if (keys == out->keys && len > FEW_ENTRIES) {
            has_duplicates = reinterpret_cast<unsigned*>(static_cast<char*>(zeros) + Chain::bytes_for(tiles));
            fence_kernel<<<blocks_for(len, THREADS * FENCE_ITEMS * (16 / sizeof(Key))), THREADS, 0, stream>>>(
                typed_keys, len, reinterpret_cast<Key*>(out->inner), reinterpret_cast<Key*>(out->outer),
                has_duplicates);
        }
        auto kernel = len <= FEW_ENTRIES ? dedup_kernel<FEW_ITEMS, Key, Value> : dedup_kernel<MANY, Key, Value>;
        kernel<<<tiles, THREADS, 0, stream>>>(typed_keys, static_cast<const Value*>(values), len, has_duplicates,
                                             Chain(zeros, tiles),
                                             reinterpret_cast<const RunOutput<Key, Value>&>(*out));
        return cudaGetLastError();
    });
}
