// What the kernels that remove duplicates from a sorted batch have in common.
#pragma once

#include "dispatch.cuh"
#include "run/emit.cuh"
#include "run/warp.cuh"

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
        Key next = shuffle_from_next(mine[i].keys[0]);
        constexpr int LAST = FENCE_ITEMS - 1;
        Key next_chunks = i < LAST ? shuffle(~0u, mine[i < LAST ? i + 1 : i].keys[0], 0) : next_warps;
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

/// If a sorted batch is long and in its final place, looks for duplicates and writes its fences: without duplicates it
/// needs no moves. Returns the flag that tells whether there are any, which is zero before; null where it is not known.
template <class Key>
unsigned* find_duplicates(const Key* keys, uint64_t len, void* zero, const RunOutput<char, char>& out,
                          cudaStream_t stream) {
    if (static_cast<const void*>(keys) != out.keys || len <= FEW_ENTRIES) return nullptr;
    auto* has_duplicates = static_cast<unsigned*>(zero);
    fence_kernel<<<blocks_for(len, THREADS * FENCE_ITEMS * (16 / sizeof(Key))), THREADS, 0, stream>>>(
        keys, len, reinterpret_cast<Key*>(out.inner), reinterpret_cast<Key*>(out.outer), has_duplicates);
    return has_duplicates;
}

}  // namespace gpulsm
