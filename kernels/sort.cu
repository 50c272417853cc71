// Sorting a batch, and ordering it: the last of equal keys stays.
#include <cub/device/device_radix_sort.cuh>

#include "dispatch.cuh"
#include "emit.cuh"

namespace gpulsm {

/// Keeps the last of equal keys of a sorted batch.
template <class Key, class Value>
__global__ void __launch_bounds__(THREADS)
order_kernel(const Key* keys, const Value* values, uint64_t len, Chain chain, Output<Key, Value> out) {
    __shared__ Tile<Key> tile;
    uint64_t first = chain.take_tile(tile.index) * TILE;
    unsigned here = static_cast<unsigned>(min(static_cast<uint64_t>(TILE), len - first));

    // The keys of the tile, and the one after.
    unsigned seen = static_cast<unsigned>(min(static_cast<uint64_t>(TILE + 1), len - first));
    for (unsigned i = threadIdx.x; i < seen; i += THREADS) tile.keys[i] = keys[first + i];
    __syncthreads();

    uint16_t entries[ITEMS];
#pragma unroll
    for (unsigned i = 0; i < ITEMS; i++) {
        unsigned item = threadIdx.x * ITEMS + i;
        bool is_last = item + 1 == seen || (item < here && tile.keys[item] != tile.keys[item + 1]);
        entries[i] = item < here && is_last ? item | entry::KEEP | entry::LIVE : 0;
    }
    emit(tile, entries, chain, out, [&](unsigned item) { return value_at(values, first + item); });
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

/// Bytes of scratch memory that `gpulsm_order` wants for a batch.
extern "C" uint64_t gpulsm_order_scratch(uint64_t len) { return Chain::bytes_for((len + TILE - 1) / TILE); }

/// Orders a sorted batch of at least one key.
GPULSM_EXPORT gpulsm_order(int key_width, int value_width, const void* keys, const void* values, uint64_t len,
                           void* scratch, const Output<char, char>* out, cudaStream_t stream) {
    uint64_t tiles = (len + TILE - 1) / TILE;
    cudaError_t zeroed = cudaMemsetAsync(scratch, 0, Chain::zeroed_for(tiles), stream);
    if (zeroed != cudaSuccess) return zeroed;
    return with_pair(key_width, value_width, [&](auto key, auto value) -> int {
        using Key = typename decltype(key)::type;
        using Value = typename decltype(value)::type;
        const auto& typed_out = reinterpret_cast<const Output<Key, Value>&>(*out);
        Chain chain(scratch, tiles);
        order_kernel<<<static_cast<unsigned>(tiles), THREADS, 0, stream>>>(
            static_cast<const Key*>(keys), static_cast<const Value*>(values), len, chain, typed_out);
        finish_kernel<<<1, 32, 0, stream>>>(chain, tiles, typed_out);
        return cudaGetLastError();
    });
}
