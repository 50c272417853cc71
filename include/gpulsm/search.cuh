// Searches a run: a binary search over the outer fences, then one node of inner fences, then one node of keys.
#pragma once

#include "view.cuh"
#include "wide.cuh"

namespace gpulsm {

template <class Key>
constexpr Key HIGHEST = static_cast<Key>(~static_cast<Key>(0));

/// Returns how many keys of a node are less than `key`. The node is aligned to its own size.
__device__ __forceinline__ uint32_t less_in_node(const uint32_t* node, uint32_t key) {
    const uint4* quads = reinterpret_cast<const uint4*>(node);
    uint32_t less = 0;
#pragma unroll
    for (int i = 0; i < NODE / 4; i++) {
        uint4 quad = __ldg(quads + i);
        less += (quad.x < key) + (quad.y < key) + (quad.z < key) + (quad.w < key);
    }
    return less;
}

__device__ __forceinline__ uint32_t less_in_node(const uint64_t* node, uint64_t key) {
    const ulonglong2* pairs = reinterpret_cast<const ulonglong2*>(node);
    uint32_t less = 0;
#pragma unroll
    for (int i = 0; i < NODE / 2; i++) {
        ulonglong2 pair = __ldg(pairs + i);
        less += (pair.x < key) + (pair.y < key);
    }
    return less;
}

__device__ __forceinline__ uint32_t less_in_node(const WideKey* node, WideKey key) {
    uint32_t less = 0;
#pragma unroll
    for (int i = 0; i < NODE; i++) less += read_key(node + i) < key;
    return less;
}

/// Returns the first position in a sorted array whose key is not less than `key`.
template <class Key, class Index>
__device__ __forceinline__ Index lower_bound(const Key* keys, Index len, Key key) {
    Index start = 0;
    while (len > 1) {
        Index half = len / 2;
        start = read_key(keys + start + half - 1) < key ? start + half : start;
        len -= half;
    }
    return len == 0 ? start : start + (read_key(keys + start) < key);
}

/// Like `lower_bound`, with a third of the steps and more than twice the loads, for kernels with few threads, which are
/// bound by latency.
template <class Key, class Index>
__device__ __forceinline__ Index lower_bound_wide(const Key* keys, Index len, Key key) {
    constexpr Index WAYS = 8;
    Index start = 0;
    while (len >= WAYS) {
        Index piece = len / WAYS, less = 0;
#pragma unroll
        for (Index way = 1; way < WAYS; way++) less += read_key(keys + start + way * piece - 1) < key;
        start += less * piece;
        len = less == WAYS - 1 ? len - less * piece : piece;
    }
    for (Index i = 0, first = start; i < len; i++) start += read_key(keys + first + i) < key;
    return start;
}

template <class Key, class Value>
__device__ __forceinline__ uint64_t length(const RunView<Key, Value>& run) {
    return __ldg(&run.head->len);
}

/// Returns how many outer fences a run of `len` entries has.
__device__ __forceinline__ uint32_t outer_fences(uint64_t len) {
    return static_cast<uint32_t>((len + NODE * NODE - 1) / (NODE * NODE));
}

/// Returns the position of the first entry whose key is not less than `key`, given the first outer fence that is
/// not less, which must exist.
template <class Key, class Value>
__device__ __forceinline__ uint64_t lower_bound_below(const RunView<Key, Value>& run, Key key, uint64_t outer) {
    // The fence is not less than the key, so the last key of each node below it is not less either.
    uint64_t inner = outer * NODE + less_in_node(run.inner + outer * NODE, key);
    return inner * NODE + less_in_node(run.keys + inner * NODE, key);
}

/// Returns the position of the first entry whose key is not less than `key`; the length if there is none.
template <class Key, class Value>
__device__ __forceinline__ uint64_t lower_bound(const RunView<Key, Value>& run, Key key) {
    uint64_t len = length(run);
    uint32_t fences = outer_fences(len);
    uint64_t outer = lower_bound(run.outer, fences, key);
    return outer == fences ? len : lower_bound_below(run, key, outer);
}

/// Like `lower_bound`, for kernels with few threads.
template <class Key, class Value>
__device__ __forceinline__ uint64_t lower_bound_wide(const RunView<Key, Value>& run, Key key) {
    uint64_t len = length(run);
    uint32_t fences = outer_fences(len);
    uint64_t outer = lower_bound_wide(run.outer, fences, key);
    return outer == fences ? len : lower_bound_below(run, key, outer);
}

/// Returns the position of the first entry whose key is greater than `key`.
template <class Key, class Value>
__device__ __forceinline__ uint64_t upper_bound(const RunView<Key, Value>& run, Key key) {
    return key == HIGHEST<Key> ? length(run) : lower_bound(run, static_cast<Key>(key + 1));
}

}  // namespace gpulsm
