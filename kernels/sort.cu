// Sorting a batch, and ordering it: the last of equal keys stays.
#include <cub/device/device_radix_sort.cuh>

#include "dispatch.cuh"
#include "emit.cuh"

namespace gpulsm {

/// Keeps the last of equal keys of a sorted batch.
template <int PER_THREAD, class Key, class Value>
__global__ void __launch_bounds__(THREADS)
order_kernel(const Key* keys, const Value* values, uint64_t len, Chain chain, Output<Key, Value> out) {
    constexpr unsigned TILE = THREADS * PER_THREAD;
    __shared__ Tally<PER_THREAD> tally;
    __shared__ Key tile[TILE + 1];
    uint64_t first = static_cast<uint64_t>(chain.take_tile(tally.index)) * TILE;
    unsigned here = static_cast<unsigned>(min(static_cast<uint64_t>(TILE), len - first));

    // The keys of the tile, and the one after.
    unsigned seen = static_cast<unsigned>(min(static_cast<uint64_t>(TILE + 1), len - first));
    for (unsigned place = threadIdx.x; place < seen; place += THREADS) tile[place] = keys[first + place];
    __syncthreads();

    Fate fate;
#pragma unroll
    for (int i = 0; i < PER_THREAD; i++) {
        unsigned place = i * THREADS + threadIdx.x;
        if (place < here && (place + 1 == seen || tile[place] != tile[place + 1])) fate.set(i, true, false);
    }
    emit(tally, tile, fate, chain, out, [&](unsigned place) { return value_at(values, first + place); });
}

/// How many tiles a batch of so many updates is ordered in.
uint64_t order_tiles(uint64_t len) {
    uint64_t tile = THREADS * (len <= FEW_ENTRIES ? FEW_ITEMS : ITEMS);
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
extern "C" uint64_t gpulsm_order_scratch(uint64_t len) { return Chain::bytes_for(order_tiles(len)); }

/// Orders a sorted batch of at least one key.
GPULSM_EXPORT gpulsm_order(int key_width, int value_width, const void* keys, const void* values, uint64_t len,
                           void* zeros, const Output<char, char>* out, cudaStream_t stream) {
    return with_pair(key_width, value_width, [&](auto key, auto value) -> int {
        using Key = typename decltype(key)::type;
        using Value = typename decltype(value)::type;
        unsigned tiles = static_cast<unsigned>(order_tiles(len));
        auto order = len <= FEW_ENTRIES ? order_kernel<FEW_ITEMS, Key, Value> : order_kernel<ITEMS, Key, Value>;
        order<<<tiles, THREADS, 0, stream>>>(static_cast<const Key*>(keys), static_cast<const Value*>(values), len,
                                             Chain(zeros, tiles),
                                             reinterpret_cast<const Output<Key, Value>&>(*out));
        return cudaGetLastError();
    });
}
