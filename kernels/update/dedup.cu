// Removes duplicates from a sorted batch: of equal keys the last one is kept.
#include "update/duplicates.cuh"

namespace gpulsm {

/// Keeps the last of equal keys of a sorted batch. If `fence_kernel` found no duplicates, only the end of the run
/// remains to be written.
///
/// The batch may lie in the output already. Then entries only move towards the front, and no tile writes before all
/// tiles before it have read theirs.
template <int PER_THREAD, class Key, class Value>
__global__ void __launch_bounds__(THREADS, sizeof(Value) > 8 ? 3 : 4)
dedup_kernel(const Key* keys, const Value* values, uint64_t len, const unsigned* has_duplicates, Chain<Key> chain,
             RunOutput<Key, Value> out) {
    if (has_duplicates != nullptr && *has_duplicates == 0) {
        if (chain.is_last()) finish(Totals<Key>{len, static_cast<int64_t>(len), 0, keys[len - 1]}, out);
        return;
    }
    constexpr unsigned TILE = THREADS * PER_THREAD;
    static_assert(PER_THREAD <= 32, "each iteration has a lane");
    __shared__ Tally<PER_THREAD, Key> tally;
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
        Totals<Key> own = unpack_counts<Key>(exclusive_sum(tally.counts));
        own.last = tile[last_place];
        __threadfence();  // …before other tiles see the totals…
        Totals<Key> before = chain.look_back(own);
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
    return chain_bytes(key_width, dedup_tiles(key_width, value_width, len)) + sizeof(unsigned);
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
        unsigned* has_duplicates = find_duplicates(typed_keys, len, static_cast<char*>(zeros) + chain_bytes(key_width, tiles),
                                                   *out, stream);
        auto kernel = len <= FEW_ENTRIES ? dedup_kernel<FEW_ITEMS, Key, Value> : dedup_kernel<MANY, Key, Value>;
        kernel<<<tiles, THREADS, 0, stream>>>(typed_keys, static_cast<const Value*>(values), len, has_duplicates,
                                             Chain<Key>(zeros, tiles),
                                             reinterpret_cast<const RunOutput<Key, Value>&>(*out));
        return cudaGetLastError();
    });
}
