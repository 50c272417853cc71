// Appends batches to the write buffer.
#include "dispatch.cuh"
#include "update/numbers.cuh"

namespace gpulsm {

/// Updates to append: inserts, then deletes. Without keys they are only numbered.
template <class Key, class Value>
struct Updates {
    const Key* keys;
    const Value* values;
    uint64_t inserts;
    const Key* delete_keys;
    uint64_t deletes;
};

/// Copies updates, and writes their numbers unless `numbers` is null.
template <class Key, class Value>
__global__ void __launch_bounds__(THREADS)
append_kernel(Updates<Key, Value> updates, Key* to_keys, Value* to_values, uint32_t* numbers, uint32_t first) {
    uint64_t index = blockIdx.x * static_cast<uint64_t>(THREADS) + threadIdx.x;
    if (index >= updates.inserts + updates.deletes) return;
    bool is_delete = index >= updates.inserts;
    const Key* keys = is_delete ? updates.delete_keys - updates.inserts : updates.keys;
    if ((is_delete ? updates.delete_keys : updates.keys) != nullptr) to_keys[index] = keys[index];
    if constexpr (sizeof(Value) > 1) {
        // The values of deletes are never used, but are copied when the buffer grows.
        if (is_delete && to_values != nullptr) to_values[index] = Value{};
        if (!is_delete && updates.values != nullptr) to_values[index] = updates.values[index];
    }
    if (numbers != nullptr) numbers[index] = (first + static_cast<uint32_t>(index)) | (is_delete ? DELETE_FLAG : 0);
}

}  // namespace gpulsm

using namespace gpulsm;

/// Appends updates to a write buffer: keys and values unless they are null and, unless `numbers` is null, numbers
/// from `first` on, with `DELETE_FLAG` added to those of deletes.
GPULSM_EXPORT gpulsm_append(int key_width, int value_width, const void* keys, const void* values, uint64_t inserts,
                            const void* delete_keys, uint64_t deletes, void* to_keys, void* to_values,
                            uint32_t* numbers, uint64_t first, cudaStream_t stream) {
    return with_pair(key_width, value_width, [&](auto key, auto value) -> int {
        using Key = typename decltype(key)::type;
        using Value = typename decltype(value)::type;
        Updates<Key, Value> updates = {static_cast<const Key*>(keys), static_cast<const Value*>(values), inserts,
                                 static_cast<const Key*>(delete_keys), deletes};
        append_kernel<<<blocks_for(inserts + deletes, THREADS), THREADS, 0, stream>>>(
            updates, static_cast<Key*>(to_keys), static_cast<Value*>(to_values), numbers, static_cast<uint32_t>(first));
        return cudaGetLastError();
    });
}
