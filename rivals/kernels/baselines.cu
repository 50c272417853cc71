// Test data made on the GPU, and CUB's sort: what gpulsm's build is measured against.
#include <cstdint>
#include <cub/device/device_radix_sort.cuh>

/// Bijections that scatter: distinct numbers make distinct keys.
__device__ uint32_t mix(uint32_t x) {
    x = (x ^ x >> 16) * 0x7feb352du;
    x = (x ^ x >> 15) * 0x846ca68bu;
    return x ^ x >> 16;
}

__device__ uint64_t mix(uint64_t x) {
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ x >> 27) * 0x94d049bb133111ebull;
    return x ^ x >> 31;
}

/// Key i is that of number `first + i * step % modulus`; values are the numbers.
template <class T>
__global__ void fill(T* keys, T* values, uint64_t first, uint64_t step, uint64_t modulus, uint64_t len) {
    uint64_t index = blockIdx.x * uint64_t(blockDim.x) + threadIdx.x;
    if (index >= len) return;
    T number = T(first + index * step % modulus);
    keys[index] = mix(number);
    if (values != nullptr) values[index] = number;
}

/// The ends of ranges as wide as `width`.
template <class T>
__global__ void widen(const T* lo, T* hi, T width, uint64_t len) {
    uint64_t index = blockIdx.x * uint64_t(blockDim.x) + threadIdx.x;
    if (index < len) hi[index] = lo[index] > T(~T(0)) - width ? T(~T(0)) : lo[index] + width;
}

template <class T>
int sort(void* temp, size_t* bytes, const void* keys, void* keys_out, const void* values, void* values_out,
         uint64_t len, cudaStream_t stream) {
    return cub::DeviceRadixSort::SortPairs(temp, *bytes, static_cast<const T*>(keys), static_cast<T*>(keys_out),
                                           static_cast<const T*>(values), static_cast<T*>(values_out), len, 0,
                                           sizeof(T) * 8, stream);
}

static unsigned blocks(uint64_t len) { return static_cast<unsigned>((len + 255) / 256); }

extern "C" int rivals_fill(int width, void* keys, void* values, uint64_t first, uint64_t step, uint64_t modulus,
                           uint64_t len, cudaStream_t stream) {
    if (width == 4) {
        fill<<<blocks(len), 256, 0, stream>>>(static_cast<uint32_t*>(keys), static_cast<uint32_t*>(values), first,
                                              step, modulus, len);
    } else {
        fill<<<blocks(len), 256, 0, stream>>>(static_cast<uint64_t*>(keys), static_cast<uint64_t*>(values), first,
                                              step, modulus, len);
    }
    return cudaGetLastError();
}

extern "C" int rivals_widen(int width, const void* lo, void* hi, uint64_t by, uint64_t len, cudaStream_t stream) {
    if (width == 4) {
        widen<<<blocks(len), 256, 0, stream>>>(static_cast<const uint32_t*>(lo), static_cast<uint32_t*>(hi),
                                               uint32_t(by), len);
    } else {
        widen<<<blocks(len), 256, 0, stream>>>(static_cast<const uint64_t*>(lo), static_cast<uint64_t*>(hi), by, len);
    }
    return cudaGetLastError();
}

extern "C" int rivals_sort(int width, void* temp, size_t* bytes, const void* keys, void* keys_out,
                           const void* values, void* values_out, uint64_t len, cudaStream_t stream) {
    auto of_width = width == 4 ? sort<uint32_t> : sort<uint64_t>;
    return of_width(temp, bytes, keys, keys_out, values, values_out, len, stream);
}
