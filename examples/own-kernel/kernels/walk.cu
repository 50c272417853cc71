// Walkers on a dictionary whose values are keys, a thread each.
#include <cuda_runtime.h>
#include <gpulsm/queries.cuh>

using Links = gpulsm::View<uint32_t, uint32_t>;

constexpr int THREADS = 256;

/// Where a walk ended; `src/main.rs` has the same structure.
struct End {
    uint32_t key;
    uint32_t is_there;  // 1 if the dictionary has that key, else 0
    uint64_t near;      // keys no further from it than the radius
};

// A view is 3 KiB: __grid_constant__ makes sure that no thread gets a copy of its own.
__global__ void __launch_bounds__(THREADS)
walk(const __grid_constant__ Links links, const uint32_t* starts, End* ends, uint64_t len, uint32_t steps,
     uint32_t radius) {
    uint64_t index = blockIdx.x * static_cast<uint64_t>(THREADS) + threadIdx.x;
    if (index >= len) return;
    uint32_t key = starts[index];
    for (uint32_t step = 0; step < steps; step++) {
        // A key that is there leads to its value; one that is not, to the next that is.
        uint32_t next, unused;
        if (!gpulsm::lookup(links, key, next) && !gpulsm::successor(links, key, next, unused)) break;
        key = next;
    }
    uint32_t lo = key > radius ? key - radius : 0;
    uint32_t hi = key < UINT32_MAX - radius ? key + radius : UINT32_MAX;
    ends[index] = {key, gpulsm::contains(links, key), gpulsm::count(links, lo, hi)};
}

/// Sends `len` walkers from `starts` and writes where each ends. Returns a `cudaError_t`.
extern "C" int own_kernel_walk(const Links* links, const uint32_t* starts, End* ends, uint64_t len, uint32_t steps,
                               uint32_t radius, cudaStream_t stream) {
    if (len == 0) return cudaSuccess;
    unsigned blocks = static_cast<unsigned>((len + THREADS - 1) / THREADS);
    walk<<<blocks, THREADS, 0, stream>>>(*links, starts, ends, len, steps, radius);
    return cudaGetLastError();
}
