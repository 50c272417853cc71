// Combines the values of equal keys in a sorted batch, and keeps each key once.
#include "update/fold.cuh"

#include "update/duplicates.cuh"

namespace gpulsm {

/// Entries of a tile per thread: as many as fit in shared memory.
constexpr int fold_items(int key_width) { return key_width <= 8 ? ITEMS : LESS_ITEMS; }

/// Keeps the last of equal keys of a sorted batch, with the combined value of all. If `fence_kernel` found no duplicates,
/// only the end of the run remains to be written. The batch may lie in the output already, as in `dedup_kernel`.
template <int PER_THREAD, class Key, class Value>
__global__ void __launch_bounds__(THREADS, 3)
fold_kernel(const Key* keys, const Value* values, uint64_t len, const unsigned* has_duplicates, Chain<Key> chain,
            RestChain<Value> rests, Combiner combiner, RunOutput<Key, Value> out) {
    if (has_duplicates != nullptr && *has_duplicates == 0) {
        if (chain.is_last()) finish(Totals<Key>{len, static_cast<int64_t>(len), 0, keys[len - 1]}, out);
        return;
    }
    constexpr unsigned FOLD_TILE = THREADS * PER_THREAD;
    constexpr uint16_t NOT_KEPT = ~0;
    __shared__ Key tile[FOLD_TILE + 1];
    __shared__ Value folded[FOLD_TILE];
    __shared__ uint16_t places[FOLD_TILE];  // among the entries that are kept
    __shared__ Segment<Value> of_warps[WARPS], carried;
    __shared__ Totals<Key> totals_before;
    __shared__ unsigned last_end;
    uint64_t first = chain.tile() * FOLD_TILE;
    unsigned tile_len = static_cast<unsigned>(min(static_cast<uint64_t>(FOLD_TILE), len - first));

    // Load the tile and the next key. The key before is read while other tiles may write it, but it stays the same.
    unsigned seen = static_cast<unsigned>(min(static_cast<uint64_t>(FOLD_TILE + 1), len - first));
    load_keys<PER_THREAD>(keys + first, tile_len, seen, tile);
    for (unsigned place = threadIdx.x; place < tile_len; place += THREADS) folded[place] = values[first + place];
    bool continues = first > 0 && keys[first - 1] == keys[first];
    if (threadIdx.x == 0) last_end = 0;
    __syncthreads();

    // Combine the values of each thread's entries, and learn what the threads before have of the first key.
    unsigned start = threadIdx.x * PER_THREAD, stop = min(start + PER_THREAD, tile_len);
    auto is_end = [&](unsigned at) { return at + 1 == seen || tile[at] != tile[at + 1]; };
    Segment<Value> own = {}, all;
#pragma unroll 1
    for (unsigned at = start; at < stop; at++) {
        bool ends = is_end(at);
        folded[at] = own.add(folded[at], ends, combiner);
        if (ends) atomicMax(&last_end, at);
    }
    Segment<Value> before = scan_segments<THREADS>(own, combiner, of_warps, all);  // All entries are read…

    // The same for the tiles before this one.
    if (threadIdx.x < 32) {
        Totals<Key> mine = {all.ends, static_cast<int64_t>(all.ends), 0, tile[last_end]};
        Segment<Value> rest = rests.look_back(chain.tile(), all, continues, combiner);
        __threadfence();  // …before other tiles see the totals…
        Totals<Key> earlier = chain.look_back(mine);
        __threadfence();  // …and those of other tiles are seen before anything is written.
        if (threadIdx.x == 0) carried = rest, totals_before = earlier;
        if (chain.is_last()) finish(earlier + mine, out);
    }
    __syncthreads();
    before = carried.then(before, combiner);
    uint32_t place = before.ends;
#pragma unroll 1
    for (unsigned at = start; at < stop; at++) {
        bool ends = is_end(at);
        places[at] = ends ? static_cast<uint16_t>(place) : NOT_KEPT;
        if (ends && before.has_rest) folded[at] = combiner.combine(before.rest, folded[at]);
        if (ends) before.has_rest = false;
        place += ends;
    }
    __syncthreads();

    // Write what is kept, with fences; neighbouring threads write neighbouring positions.
    for (unsigned at = threadIdx.x; at < tile_len; at += THREADS) {
        if (places[at] == NOT_KEPT) continue;
        uint64_t position = totals_before.kept + places[at];
        out.keys[position] = tile[at];
        out.values[position] = folded[at];
        write_fences(out, position, tile[at]);
    }
}

uint64_t fold_tiles(int key_width, uint64_t len) { return blocks_for(len, THREADS * fold_items(key_width)); }

}  // namespace gpulsm

using namespace gpulsm;

/// Returns the bytes of zeroed memory that `gpulsm_fold` needs: two chains, and the flag for duplicates.
extern "C" uint64_t gpulsm_fold_scratch(int key_width, uint64_t len) {
    uint64_t tiles = fold_tiles(key_width, len);
    return chain_bytes(key_width, tiles) + RestChain<ulonglong2>::bytes_for(tiles) + sizeof(unsigned);
}

/// Combines the values of equal keys in a sorted batch of at least one key, in place if it lies in the output.
GPULSM_EXPORT gpulsm_fold(int key_width, int value_width, const void* keys, const void* values, uint64_t len,
                          void* zeros, const Combiner* combiner, const RunOutput<char, char>* out,
                          cudaStream_t stream) {
    return with_pair(key_width, value_width, [&](auto key, auto value) -> int {
        using Key = typename decltype(key)::type;
        using Value = typename decltype(value)::type;
        if constexpr (sizeof(Value) == 1) {
            return cudaErrorInvalidValue;  // A set has no values.
        } else {
            unsigned tiles = static_cast<unsigned>(fold_tiles(key_width, len));
            char* rests = static_cast<char*>(zeros) + chain_bytes(key_width, tiles);
            auto* typed_keys = static_cast<const Key*>(keys);
            unsigned* has_duplicates =
                find_duplicates(typed_keys, len, rests + RestChain<Value>::bytes_for(tiles), *out, stream);
            fold_kernel<fold_items(sizeof(Key))><<<tiles, THREADS, 0, stream>>>(
                typed_keys, static_cast<const Value*>(values), len, has_duplicates, Chain<Key>(zeros, tiles),
                RestChain<Value>(rests, tiles), *combiner, reinterpret_cast<const RunOutput<Key, Value>&>(*out));
            return cudaGetLastError();
        }
    });
}
