// Sorts a batch with CUB's radix sort.
#include "without_iostream.cuh"

#include <cub/device/device_radix_sort.cuh>

#include "dispatch.cuh"

namespace gpulsm {

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

/// Sorts stably. If `temp` is null, only returns how many bytes of it are needed.
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
