// Batches that wait, put behind each other as they come.
#include "dispatch.cuh"
#include "sources.cuh"
#include "tuning.cuh"

namespace gpulsm {

/// Copies some updates, with their numbers where those are wanted.
template <class Key, class Value>
__global__ void __launch_bounds__(THREADS)
append_kernel(const Key* keys, const Value* values, uint64_t len, Key* to_keys, Value* to_values, uint32_t* numbers,
              uint32_t first) {
    uint64_t index = blockIdx.x * static_cast<uint64_t>(THREADS) + threadIdx.x;
    if (index >= len) return;
    if (keys != nullptr) to_keys[index] = keys[index];
    if constexpr (sizeof(Value) > 1) {
        if (values != nullptr) to_values[index] = values[index];
    }
    if (numbers != nullptr) numbers[index] = first + static_cast<uint32_t>(index);
}

}  // namespace gpulsm

using namespace gpulsm;

/// Appends `len` updates: keys and values unless they are null, and, where `numbers` is not null, the
/// numbers from `first` on, with `DELETES` added to those of deletes.
GPULSM_EXPORT gpulsm_append(int key_width, int value_width, const void* keys, const void* values, uint64_t len,
                            void* to_keys, void* to_values, uint32_t* numbers, uint64_t first, int deletes,
                            cudaStream_t stream) {
    return with_pair(key_width, value_width, [&](auto key, auto value) -> int {
        using Key = typename decltype(key)::type;
        using Value = typename decltype(value)::type;
        append_kernel<<<blocks_for(len, THREADS), THREADS, 0, stream>>>(
            static_cast<const Key*>(keys), static_cast<const Value*>(values), len, static_cast<Key*>(to_keys),
            static_cast<Value*>(to_values), numbers, static_cast<uint32_t>(first) | (deletes ? DELETES : 0));
        return cudaGetLastError();
    });
}
