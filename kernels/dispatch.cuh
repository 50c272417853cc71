// Dispatches from widths known at run time to types: three widths of keys, four of values.
#pragma once

#include <cuda_runtime.h>

#include <type_traits>
#include <utility>

#include <gpulsm/view.cuh>
#include <gpulsm/wide.cuh>

#include "abi.cuh"
#include "tuning.cuh"

namespace gpulsm {

template <class T>
struct Type {
    using type = T;
};

/// Calls `body(Type<Key>)`.
template <class Body>
int with_key(int key_width, Body body) {
    cudaGetLastError();  // Clears errors of others, which are not ours to report.
    switch (key_width) {
        case 4: return body(Type<uint32_t>());
        case 8: return body(Type<uint64_t>());
        default: return body(Type<WideKey>());
    }
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

/// Returns a view with its types.
template <class Key, class Value>
View<Key, Value> typed(const View<char, char>& view) {
    static_assert(sizeof(View<Key, Value>) == sizeof(View<char, char>));
    return reinterpret_cast<const View<Key, Value>&>(view);
}

/// Returns how many blocks of `THREADS` give each of `items` a thread, but at most as many as can run at once with
/// `blocks_per_multiprocessor` blocks per multiprocessor.
inline unsigned blocks_at_once(uint64_t items, int blocks_per_multiprocessor) {
    int device = 0, multiprocessors = 1;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
    uint64_t blocks = (items + THREADS - 1) / THREADS;
    uint64_t most = static_cast<uint64_t>(multiprocessors) * blocks_per_multiprocessor;
    return static_cast<unsigned>(blocks < most ? blocks : most);
}

/// Returns how many blocks of `threads` give each of `items` a thread.
inline unsigned blocks_for(uint64_t items, int threads) {
    return static_cast<unsigned>((items + threads - 1) / threads);
}

/// Allows a kernel this much dynamic shared memory; up to 48 KiB need no call.
template <class Kernel>
cudaError_t allow_shared(Kernel kernel, size_t bytes) {
    if (bytes <= 48 << 10) return cudaSuccess;
    return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
}

/// Returns whether kernels can be launched before the one ahead of them on the stream has ended: whether `wait_for_predecessor`
/// waits in the code that the current device executes.
bool can_launch_early();

/// Launches a kernel that first of all calls `wait_for_predecessor`: where that is possible it is launched while the last
/// blocks of the kernel ahead of it on the stream end, which saves a microsecond.
template <class... Params, class... Args>
cudaError_t launch_early(void (*kernel)(Params...), uint64_t blocks, int threads, size_t shared, cudaStream_t stream,
                         Args&&... args) {
    cudaLaunchAttribute early;
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(static_cast<unsigned>(blocks));
    config.blockDim = dim3(threads);
    config.dynamicSmemBytes = shared;
    config.stream = stream;
    config.attrs = &early;
    config.numAttrs = can_launch_early() ? 1 : 0;
    return cudaLaunchKernelEx(&config, kernel, std::forward<Args>(args)...);
}

/// Waits until the kernel ahead of this on the stream has ended and all that it wrote can be read. All threads call it before
/// anything else.
__device__ __forceinline__ void wait_for_predecessor() {
#if __CUDA_ARCH__ >= 900
    cudaGridDependencySynchronize();
#endif
}

/// Calls `body` with the number of threads per key, as a constant: one per search that the key needs, up to 16, as
/// long as all threads can run at once. Wide keys have 1, 4 or 16 threads: that saves kernels.
template <class Key, class Body>
int with_lanes(uint64_t keys, uint64_t searches, Body body, uint64_t most_threads = LANE_THREADS) {
    uint64_t lanes = 1;
    while (lanes < searches && lanes < 16 && keys * lanes < most_threads) lanes *= 2;
    if constexpr (sizeof(Key) < 16) {
        if (lanes == 2) return body(std::integral_constant<int, 2>());
        if (lanes == 8) return body(std::integral_constant<int, 8>());
    }
    if (lanes >= 16) return body(std::integral_constant<int, 16>());
    return lanes >= 4 ? body(std::integral_constant<int, 4>()) : body(std::integral_constant<int, 1>());
}

}  // namespace gpulsm
