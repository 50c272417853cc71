// Batches that wait, put behind each other as they come.
#include "dispatch.cuh"
#include "sources.cuh"
#include "tuning.cuh"

namespace gpulsm {

/// Some updates: inserts, then deletes. Without keys, they are only numbered.
template <class Key, class Value>
struct Some {
    const Key* keys;
    const Value* values;
    uint64_t inserts;
    const Key* delete_keys;
    uint64_t deletes;
};

/// Copies some updates, with their numbers where those are wanted.
template <class Key, class Value>
__global__ void __launch_bounds__(THREADS)
append_kernel(Some<Key, Value> some, Key* to_keys, Value* to_values, uint32_t* numbers, uint32_t first) {
    uint64_t index = blockIdx.x * static_cast<uint64_t>(THREADS) + threadIdx.x;
    if (index >= some.inserts + some.deletes) return;
    bool is_delete = index >= some.inserts;
    const Key* keys = is_delete ? some.delete_keys - some.inserts : some.keys;
    if ((is_delete ? some.delete_keys : some.keys) != nullptr) to_keys[index] = keys[index];
    if constexpr (sizeof(Value) > 1) {
        // Nobody reads the values of deletes, but they are copied when the log grows.
        if (is_delete && to_values != nullptr) to_values[index] = Value{};
        if (!is_delete && some.values != nullptr) to_values[index] = some.values[index];
    }
    if (numbers != nullptr) numbers[index] = (first + static_cast<uint32_t>(index)) | (is_delete ? DELETES : 0);
}

}  // namespace gpulsm

using namespace gpulsm;

/// Appends updates: keys and values unless they are null, and, where `numbers` is not null, the numbers from
/// `first` on, with `DELETES` added to those of deletes.
GPULSM_EXPORT gpulsm_append(int key_width, int value_width, const void* keys, const void* values, uint64_t inserts,
                            const void* delete_keys, uint64_t deletes, void* to_keys, void* to_values,
                            uint32_t* numbers, uint64_t first, cudaStream_t stream) {
    return with_pair(key_width, value_width, [&](auto key, auto value) -> int {
        using Key = typename decltype(key)::type;
        using Value = typename decltype(value)::type;
        Some<Key, Value> some = {static_cast<const Key*>(keys), static_cast<const Value*>(values), inserts,
                                 static_cast<const Key*>(delete_keys), deletes};
        append_kernel<<<blocks_for(inserts + deletes, THREADS), THREADS, 0, stream>>>(
            some, static_cast<Key*>(to_keys), static_cast<Value*>(to_values), numbers, static_cast<uint32_t>(first));
        return cudaGetLastError();
    });
}
