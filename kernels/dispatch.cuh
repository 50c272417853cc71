// From widths known at run time to types: two widths of keys, four of values.
#pragma once

#include <cuda_runtime.h>

#include <type_traits>

#include "../include/gpulsm/view.cuh"
#include "tuning.cuh"

namespace gpulsm {

template <class T>
struct Type {
    using type = T;
};

/// Calls `body(Type<Key>)`.
template <class Body>
int with_key(int key_width, Body body) {
    cudaGetLastError();  // What others left behind is not ours to report.
    return key_width == 4 ? body(Type<uint32_t>()) : body(Type<uint64_t>());
}

/// Calls `body(Type<Key>, Type<Value>)`.
template <class Body>
int with_pair(int key_width, int value_width, Body body) {
    return with_key(key_width, [&](auto key) {
        switch (value_width) {
            case 0: return body(key, Type<Nothing>());
            case 4: return body(key, Type<uint32_t>());
            case 8: return body(key, Type<uint64_t>());
            default: return body(key, Type<ulonglong2>());
        }
    });
}


template <class Key, class Value>
View<Key, Value> typed(const View<char, char>& view) {
    static_assert(sizeof(View<Key, Value>) == sizeof(View<char, char>));
    return reinterpret_cast<const View<Key, Value>&>(view);
}

/// As many blocks of `THREADS` as give every one of `items` a thread, but no more than can run at once, if a
/// multiprocessor has so many.
inline unsigned blocks_at_once(uint64_t items, int of_multiprocessor) {
    int device = 0, multiprocessors = 1;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
    uint64_t blocks = (items + THREADS - 1) / THREADS, most = static_cast<uint64_t>(multiprocessors) * of_multiprocessor;
    return static_cast<unsigned>(blocks < most ? blocks : most);
}

/// As many blocks of `threads` as give every one of `items` a thread.
inline unsigned blocks_for(uint64_t items, int threads) {
    return static_cast<unsigned>((items + threads - 1) / threads);
}

}  // namespace gpulsm

/// What each entry point returns to Rust: a `cudaError_t`.
#define GPULSM_EXPORT extern "C" int
