// Looking keys up, a thread each.
#include "dispatch.cuh"
#include "tuning.cuh"
#include "../include/gpulsm/queries.cuh"

namespace gpulsm {

template <class Key, class Value>
__global__ void __launch_bounds__(THREADS)
lookup_kernel(const __grid_constant__ View<Key, Value> view, const Key* keys, uint64_t len, Value* values,
              uint8_t* found) {
    uint64_t index = blockIdx.x * static_cast<uint64_t>(THREADS) + threadIdx.x;
    if (index >= len) return;
    if (sizeof(Value) > 1 && values != nullptr) {
        Value value;
        found[index] = lookup(view, keys[index], value);
        values[index] = value;
    } else {
        found[index] = contains(view, keys[index]);
    }
}

}  // namespace gpulsm

using namespace gpulsm;

/// Writes whether each key is there and, unless `values` is null, its value.
GPULSM_EXPORT gpulsm_lookup(int key_width, int value_width, const View<char, char>* view, const void* keys,
                            uint64_t len, void* values, uint8_t* found, cudaStream_t stream) {
    return with_pair(key_width, value_width, [&](auto key, auto value) -> int {
        using Key = typename decltype(key)::type;
        using Value = typename decltype(value)::type;
        lookup_kernel<<<blocks_for(len, THREADS), THREADS, 0, stream>>>(
            typed<Key, Value>(*view), static_cast<const Key*>(keys), len, static_cast<Value*>(values), found);
        return cudaGetLastError();
    });
}
