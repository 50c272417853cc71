// Sorts a batch with CUB's radix sort, by the bits in which its keys differ.
#include "without_iostream.cuh"

#include <cub/device/device_radix_sort.cuh>

#include "dispatch.cuh"
#include "run/warp.cuh"

namespace gpulsm {

/// A range of bits, of which the first is the least significant.
struct BitRange {
    int begin, end;
};

template <class Key, class Value>
cudaError_t sort(void* temp, size_t& bytes, const Key* keys_in, Key* keys_out, const Value* values_in,
                 Value* values_out, uint64_t len, BitRange bits, cudaStream_t stream) {
    if constexpr (sizeof(Value) > 1) {
        return cub::DeviceRadixSort::SortPairs(temp, bytes, keys_in, keys_out, values_in, values_out, len,
                                               bits.begin, bits.end, stream);
    } else {
        return cub::DeviceRadixSort::SortKeys(temp, bytes, keys_in, keys_out, len, bits.begin, bits.end, stream);
    }
}

/// Sets the bits in which some key differs from the first one, in two words of zeros, the lower first.
template <class Key>
__global__ void __launch_bounds__(THREADS)
differing_bits_kernel(const Key* keys, uint64_t len, unsigned long long* bits) {
    Key first = read_key(keys), differing = 0;
    uint64_t stride = gridDim.x * static_cast<uint64_t>(THREADS);
    for (uint64_t index = blockIdx.x * static_cast<uint64_t>(THREADS) + threadIdx.x; index < len; index += stride) {
        differing |= read_key(keys + index) ^ first;
    }
    for (int step = 16; step > 0; step /= 2) differing |= shuffle_across(~0u, differing, step);
    if (threadIdx.x % 32 != 0) return;
    auto low = static_cast<unsigned long long>(differing);
    if (low & ~*static_cast<volatile unsigned long long*>(bits)) atomicOr(bits, low);
    if constexpr (sizeof(Key) == 16) {
        auto high = static_cast<unsigned long long>(differing >> 64);
        if (high & ~*static_cast<volatile unsigned long long*>(bits + 1)) atomicOr(bits + 1, high);
    }
}

}  // namespace gpulsm

using namespace gpulsm;

/// Sorts stably by the bits from `begin_bit` up to `end_bit`. If `temp` is null, only returns how many bytes of it are
/// needed.
GPULSM_EXPORT gpulsm_sort(int key_width, int value_width, void* temp, size_t* temp_bytes, const void* keys_in,
                          void* keys_out, const void* values_in, void* values_out, uint64_t len, int begin_bit,
                          int end_bit, cudaStream_t stream) {
    return with_pair(key_width, value_width, [&](auto key, auto value) -> int {
        using Key = typename decltype(key)::type;
        using Value = typename decltype(value)::type;
        return sort(temp, *temp_bytes, static_cast<const Key*>(keys_in), static_cast<Key*>(keys_out),
                    static_cast<const Value*>(values_in), static_cast<Value*>(values_out), len,
                    BitRange{begin_bit, end_bit}, stream);
    });
}

/// Sets the bits in which at least one key differs from another, in two words of zeros, the lower first.
GPULSM_EXPORT gpulsm_differing_bits(int key_width, const void* keys, uint64_t len, unsigned long long* bits,
                                    cudaStream_t stream) {
    return with_key(key_width, [&](auto key) -> int {
        using Key = typename decltype(key)::type;
        differing_bits_kernel<<<blocks_at_once(len, 8), THREADS, 0, stream>>>(static_cast<const Key*>(keys), len, bits);
        return cudaGetLastError();
    });
}
