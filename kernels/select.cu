// The i-th pair, the next and the one before: a thread each.
#include "dispatch.cuh"
#include "tuning.cuh"
#include "../include/gpulsm/queries.cuh"

namespace gpulsm {

/// Where answers of at most one pair per query go; zeros where nothing was found.
template <class Key, class Value>
struct Pairs {
    Key* keys;
    Value* values;
    uint8_t* found;

    __device__ void write(uint64_t index, bool is_found, Key key, Value value) const {
        found[index] = is_found;
        keys[index] = key;
        if constexpr (sizeof(Value) > 1) values[index] = value;
    }
};

template <class Key, class Value>
__global__ void __launch_bounds__(THREADS)
select_kernel(const __grid_constant__ View<Key, Value> view, const uint64_t* indices, uint64_t len,
              Pairs<Key, Value> out) {
    uint64_t index = blockIdx.x * static_cast<uint64_t>(THREADS) + threadIdx.x;
    if (index >= len) return;
    Key key;
    Value value;
    bool found = select(view, indices[index], key, value);
    out.write(index, found, key, value);
}

template <class Key, class Value>
__global__ void __launch_bounds__(THREADS)
nearest_kernel(const __grid_constant__ View<Key, Value> view, bool is_successor, const Key* keys, uint64_t len,
               Pairs<Key, Value> out) {
    uint64_t index = blockIdx.x * static_cast<uint64_t>(THREADS) + threadIdx.x;
    if (index >= len) return;
    Key key;
    Value value;
    bool found = is_successor ? successor(view, keys[index], key, value) : predecessor(view, keys[index], key, value);
    out.write(index, found, key, value);
}

}  // namespace gpulsm

using namespace gpulsm;

/// Writes the pair at each place in key order.
GPULSM_EXPORT gpulsm_select(int key_width, int value_width, const View<char, char>* view, const uint64_t* indices,
                            uint64_t len, const Pairs<char, char>* out, cudaStream_t stream) {
    return with_pair(key_width, value_width, [&](auto key, auto value) -> int {
        using Key = typename decltype(key)::type;
        using Value = typename decltype(value)::type;
        select_kernel<<<blocks_for(len, THREADS), THREADS, 0, stream>>>(
            typed<Key, Value>(*view), indices, len, reinterpret_cast<const Pairs<Key, Value>&>(*out));
        return cudaGetLastError();
    });
}

/// Writes the nearest pair to each key, itself included, on one side of it.
GPULSM_EXPORT gpulsm_nearest(int key_width, int value_width, const View<char, char>* view, bool is_successor,
                             const void* keys, uint64_t len, const Pairs<char, char>* out, cudaStream_t stream) {
    return with_pair(key_width, value_width, [&](auto key, auto value) -> int {
        using Key = typename decltype(key)::type;
        using Value = typename decltype(value)::type;
        nearest_kernel<<<blocks_for(len, THREADS), THREADS, 0, stream>>>(
            typed<Key, Value>(*view), is_successor, static_cast<const Key*>(keys), len,
            reinterpret_cast<const Pairs<Key, Value>&>(*out));
        return cudaGetLastError();
    });
}
