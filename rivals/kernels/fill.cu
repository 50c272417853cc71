// Test data made on the GPU.
#include <cstdint>

/// A bijection that scatters: distinct numbers make distinct keys.
__device__ uint32_t mix(uint32_t x) {
    x = (x ^ x >> 16) * 0x7feb352du;
    x = (x ^ x >> 15) * 0x846ca68bu;
    return x ^ x >> 16;
}

/// Key i is that of number `first + i`; values are the numbers.
__global__ void fill(uint32_t* keys, uint32_t* values, uint64_t first, uint64_t len) {
    uint64_t index = blockIdx.x * uint64_t(blockDim.x) + threadIdx.x;
    if (index >= len) return;
    uint32_t number = uint32_t(first + index);
    keys[index] = mix(number);
    values[index] = number;
}

extern "C" int rivals_fill(void* keys, void* values, uint64_t first, uint64_t len, cudaStream_t stream) {
    unsigned blocks = static_cast<unsigned>((len + 255) / 256);
    fill<<<blocks, 256, 0, stream>>>(static_cast<uint32_t*>(keys), static_cast<uint32_t*>(values), first, len);
    return cudaGetLastError();
}
