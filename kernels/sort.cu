// Sorting a batch, and ordering it: the last of equal keys stays.
#include "without_iostream.cuh"

#include <cub/device/device_radix_sort.cuh>

#include "dispatch.cuh"
#include "emit.cuh"

namespace gpulsm {

/// Writes the fences of a sorted batch as if no key came twice, and says whether one does. Each warp has a stretch
/// of the batch, of which its lanes read 16 bytes each at a time: there is room for as many behind the last key.
template <class Key>
__global__ void __launch_bounds__(THREADS)
fence_kernel(const Key* keys, uint64_t len, Key* inner, Key* outer, unsigned* has_doubles) {
    using Quad = std::conditional_t<sizeof(Key) == 4, uint4, ulonglong2>;
    constexpr unsigned WIDTH = sizeof(Quad) / sizeof(Key), CHUNK = 32 * WIDTH;
    union Some {
        Quad quad;
        Key keys[WIDTH];
    };
    unsigned lane = threadIdx.x % 32;
    uint64_t warp = blockIdx.x * static_cast<uint64_t>(WARPS) + threadIdx.x / 32;
    uint64_t first = warp * CHUNK * FENCE_ITEMS + lane * WIDTH;
    Some mine[FENCE_ITEMS];
#pragma unroll
    for (int i = 0; i < FENCE_ITEMS; i++) {
        uint64_t position = first + i * CHUNK;
        if (position < len) mine[i].quad = *reinterpret_cast<const Quad*>(keys + position);
    }
    uint64_t end = first + FENCE_ITEMS * CHUNK;  // of the last lane's, where the next warp's begin
    Key next_warps = lane == 31 && end - lane * WIDTH < len ? keys[end - lane * WIDTH] : 0;
    bool doubled = false;
#pragma unroll
    for (int i = 0; i < FENCE_ITEMS; i++) {
        uint64_t position = first + i * CHUNK;
        Key next = __shfl_down_sync(~0u, mine[i].keys[0], 1);
        Key next_chunks = i + 1 < FENCE_ITEMS ? __shfl_sync(~0u, mine[i + 1 < FENCE_ITEMS ? i + 1 : i].keys[0], 0) : next_warps;
        if (lane == 31) next = next_chunks;
#pragma unroll
        for (unsigned k = 0; k < WIDTH; k++) {
            Key after = k + 1 < WIDTH ? mine[i].keys[k + 1 < WIDTH ? k + 1 : k] : next;
            if (position + k + 1 < len && mine[i].keys[k] == after) doubled = true;
        }
        uint64_t last = position + WIDTH - 1;
        if (last >= len || last % NODE != NODE - 1 || inner == nullptr) continue;
        inner[last / NODE] = mine[i].keys[WIDTH - 1];
        if (last % (NODE * NODE) == NODE * NODE - 1) outer[last / (NODE * NODE)] = mine[i].keys[WIDTH - 1];
    }
    if (doubled) *has_doubles = 1;
}

/// Keeps the last of equal keys of a sorted batch. If it was looked before whether there are any, and
/// there are none, only the end is left to see to.
///
/// The batch may lie in the output already: then entries only move down, and only if any before them is
/// dropped, and no tile writes before all before it have read theirs.
template <int PER_THREAD, class Key, class Value>
__global__ void __launch_bounds__(THREADS, sizeof(Value) > 8 ? 3 : 4)
order_kernel(const Key* keys, const Value* values, uint64_t len, const unsigned* has_doubles, Chain chain,
             Output<Key, Value> out) {
    if (has_doubles != nullptr && *has_doubles == 0) {
        if (chain.is_last()) finish({len, static_cast<int64_t>(len), 0, keys[len - 1]}, out);
        return;
    }
    constexpr unsigned TILE = THREADS * PER_THREAD;
    static_assert(PER_THREAD <= 32, "a lane sees to a time around");
    __shared__ Tally<PER_THREAD> tally;
    __shared__ Key tile[TILE + 1];
    __shared__ unsigned last_place;
    uint64_t first = chain.tile() * TILE;
    unsigned here = static_cast<unsigned>(min(static_cast<uint64_t>(TILE), len - first));
    unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;

    // The keys of the tile, and the one after; all are asked for before the first is put anywhere.
    unsigned seen = static_cast<unsigned>(min(static_cast<uint64_t>(TILE + 1), len - first));
    Key mine[PER_THREAD];
#pragma unroll
    for (int i = 0; i < PER_THREAD; i++) {
        unsigned place = i * THREADS + threadIdx.x;
        if (place < here) mine[i] = keys[first + place];
    }
    if (threadIdx.x == 0 && seen > here) tile[here] = keys[first + here];
#pragma unroll
    for (int i = 0; i < PER_THREAD; i++) {
        unsigned place = i * THREADS + threadIdx.x;
        if (place < here) tile[place] = mine[i];
    }
    if (threadIdx.x == 0) last_place = 0;
    __syncthreads();

    // Which ones are kept, and at each time around how many; which comes last. Values that others may write
    // over are read before the tiles before this one are waited for.
    unsigned kept = 0, of_lane = 0;  // a bit for each time around; for each lane
    Value values_of_mine[PER_THREAD];
#pragma unroll
    for (int i = 0; i < PER_THREAD; i++) {
        unsigned place = i * THREADS + threadIdx.x;
        bool keep = place < here && (place + 1 == seen || tile[place] != tile[place + 1]);
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
    __syncthreads();  // All is read…

    // How many are kept before: in this tile, and in those before it.
    if (warp == 0) {
        Totals own = unpack_counts(add_up(tally.counts));
        own.last = tile[last_place];
        __threadfence();  // …before others hear of it…
        Totals before = chain.look_back(own);
        __threadfence();  // …and of others before anything is written.
        if (lane == 0) tally.before = before;
        if (chain.is_last()) finish(before + own, out);
    }
    __syncthreads();

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

/// Entries for each thread, where there are many: as many as a thread can hold.
constexpr int order_items(int key_width, int value_width) { return key_width + value_width <= 8 ? MOST_ITEMS : ITEMS; }

/// How many tiles a batch of so many updates is ordered in.
uint64_t order_tiles(int key_width, int value_width, uint64_t len) {
    uint64_t tile = THREADS * (len <= FEW_ENTRIES ? FEW_ITEMS : order_items(key_width, value_width));
    return (len + tile - 1) / tile;
}

template <class Key, class Value>
cudaError_t sort(void* temp, size_t& bytes, const Key* keys_in, Key* keys_out, const Value* values_in,
                 Value* values_out, uint64_t len, cudaStream_t stream) {
    constexpr int BITS = sizeof(Key) * 8;
    if constexpr (sizeof(Value) > 1) {
        return cub::DeviceRadixSort::SortPairs(temp, bytes, keys_in, keys_out, values_in, values_out, len,
                                               0, BITS, stream);
    } else {
        return cub::DeviceRadixSort::SortKeys(temp, bytes, keys_in, keys_out, len, 0, BITS, stream);
    }
}

}  // namespace gpulsm

using namespace gpulsm;

/// Sorts stably. With `temp` null, only says how many bytes of it there must be.
GPULSM_EXPORT gpulsm_sort(int key_width, int value_width, void* temp, size_t* temp_bytes, const void* keys_in,
                          void* keys_out, const void* values_in, void* values_out, uint64_t len,
                          cudaStream_t stream) {
    return with_pair(key_width, value_width, [&](auto key, auto value) -> int {
        using Key = typename decltype(key)::type;
        using Value = typename decltype(value)::type;
        return sort(temp, *temp_bytes, static_cast<const Key*>(keys_in), static_cast<Key*>(keys_out),
                    static_cast<const Value*>(values_in), static_cast<Value*>(values_out), len, stream);
    });
}

/// Bytes of zeros that `gpulsm_order` wants for a batch: a chain, and whether there are doubles.
extern "C" uint64_t gpulsm_order_scratch(int key_width, int value_width, uint64_t len) {
    return Chain::bytes_for(order_tiles(key_width, value_width, len)) + sizeof(unsigned);
}

/// Orders a sorted batch of at least one key, in place if it lies in the output.
GPULSM_EXPORT gpulsm_order(int key_width, int value_width, const void* keys, const void* values, uint64_t len,
                           void* zeros, const Output<char, char>* out, cudaStream_t stream) {
    return with_pair(key_width, value_width, [&](auto key, auto value) -> int {
        using Key = typename decltype(key)::type;
        using Value = typename decltype(value)::type;
        constexpr int MANY = order_items(sizeof(Key), std::is_empty_v<Value> ? 0 : sizeof(Value));
        unsigned tiles = static_cast<unsigned>(order_tiles(key_width, value_width, len));
        auto* typed_keys = static_cast<const Key*>(keys);
        // A long batch that is where it should be may be left alone, but for doubles.
        unsigned* has_doubles = nullptr;
        if (keys == out->keys && len > FEW_ENTRIES) {
            has_doubles = reinterpret_cast<unsigned*>(static_cast<char*>(zeros) + Chain::bytes_for(tiles));
            fence_kernel<<<blocks_for(len, THREADS * FENCE_ITEMS * (16 / sizeof(Key))), THREADS, 0, stream>>>(
                typed_keys, len, reinterpret_cast<Key*>(out->inner), reinterpret_cast<Key*>(out->outer), has_doubles);
        }
        auto order = len <= FEW_ENTRIES ? order_kernel<FEW_ITEMS, Key, Value> : order_kernel<MANY, Key, Value>;
        order<<<tiles, THREADS, 0, stream>>>(typed_keys, static_cast<const Value*>(values), len, has_doubles,
                                             Chain(zeros, tiles),
                                             reinterpret_cast<const Output<Key, Value>&>(*out));
        return cudaGetLastError();
    });
}
