// Sorting a batch, and ordering it: the last of equal keys stays.
#include <cub/device/device_radix_sort.cuh>

#include "dispatch.cuh"
#include "emit.cuh"

namespace gpulsm {

/// Keeps the last of equal keys of a sorted batch.
template <int PER_THREAD, class Key, class Value>
__global__ void __launch_bounds__(THREADS, sizeof(Value) > 8 ? 3 : 4)
order_kernel(const Key* keys, const Value* values, uint64_t len, Chain chain, Output<Key, Value> out) {
    constexpr unsigned TILE = THREADS * PER_THREAD;
    __shared__ Tally<PER_THREAD> tally;
    __shared__ Key tile[TILE + 1];
    uint64_t first = static_cast<uint64_t>(Chain::tile()) * TILE;
    unsigned here = static_cast<unsigned>(min(static_cast<uint64_t>(TILE), len - first));

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
    __syncthreads();

    Fate fate;
#pragma unroll
    for (int i = 0; i < PER_THREAD; i++) {
        unsigned place = i * THREADS + threadIdx.x;
        if (place < here && (place + 1 == seen || tile[place] != tile[place + 1])) fate.set(i, true, false);
    }
    uint64_t from = keys == out.keys ? first : ELSEWHERE;
    auto value_of = [&](unsigned place) { return value_at(values, first + place); };
    emit<false>(tally, tile, fate, chain, from, out, value_of);
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

/// Bytes of zeros that `gpulsm_order` wants for a batch.
extern "C" uint64_t gpulsm_order_scratch(int key_width, int value_width, uint64_t len) {
    return Chain::bytes_for(order_tiles(key_width, value_width, len));
}

/// Orders a sorted batch of at least one key, in place if it lies in the output.
GPULSM_EXPORT gpulsm_order(int key_width, int value_width, const void* keys, const void* values, uint64_t len,
                           void* zeros, const Output<char, char>* out, cudaStream_t stream) {
    return with_pair(key_width, value_width, [&](auto key, auto value) -> int {
        using Key = typename decltype(key)::type;
        using Value = typename decltype(value)::type;
        constexpr int MANY = order_items(sizeof(Key), std::is_empty_v<Value> ? 0 : sizeof(Value));
        unsigned tiles = static_cast<unsigned>(order_tiles(key_width, value_width, len));
        auto order = len <= FEW_ENTRIES ? order_kernel<FEW_ITEMS, Key, Value> : order_kernel<MANY, Key, Value>;
        order<<<tiles, THREADS, 0, stream>>>(static_cast<const Key*>(keys), static_cast<const Value*>(values), len,
                                             Chain(zeros, tiles),
                                             reinterpret_cast<const Output<Key, Value>&>(*out));
        return cudaGetLastError();
    });
}
