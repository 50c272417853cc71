// Which keys of a batch are live in the older runs.
#include "dispatch.cuh"
#include "tuning.cuh"
#include "../include/gpulsm/queries.cuh"

namespace gpulsm {

/// (live - shadow) over all entries of a key adds up to 1 if the key is live and to 0 if it is not:
/// runs can be asked in any order, by as many threads as there are.
template <class Key, int LANES>
__global__ void __launch_bounds__(THREADS)
shadows_kernel(const Key* keys, const uint64_t* len, const __grid_constant__ View<Key, Nothing> older,
               uint8_t* shadows) {
    uint64_t thread = blockIdx.x * static_cast<uint64_t>(THREADS) + threadIdx.x, many = *len;
    uint64_t index = thread / LANES;
    bool here = index < many;
    Key key = here ? keys[index] : 0;

    // The keys are sorted, so those of a block lie near each other: two threads for each run find
    // between which outer fences. (With several threads for a key there are too few to be worth it.)
    constexpr bool NEAR = LANES == 1;
    __shared__ uint32_t window[NEAR ? MAX_RUNS : 1][2];
    if (NEAR && threadIdx.x < 2 * older.count) {
        const Run<Key, Nothing>& run = older.runs[threadIdx.x / 2];
        uint64_t first = blockIdx.x * static_cast<uint64_t>(THREADS), end = threadIdx.x % 2;
        Key edge = keys[min(first + end * (THREADS - 1), many - 1)];
        window[threadIdx.x / 2][end] = lower_bound(run.outer, outer_fences(length(run)), edge);
    }
    if (NEAR) __syncthreads();

    int worth = 0;
    for (unsigned at = thread % LANES; here && at < older.count; at += LANES) {
        const Run<Key, Nothing>& run = older.runs[at];
        uint64_t position, entries = length(run);
        if constexpr (NEAR) {
            uint32_t from = window[at][0], to = window[at][1];
            uint32_t outer = from + lower_bound(run.outer + from, to - from, key);
            position = outer == outer_fences(entries) ? entries : lower_bound_below(run, key, outer);
        } else {
            position = lower_bound(run, key);
        }
        if (position < entries && __ldg(run.keys + position) == key) {
            worth += is_live(run.marks, position) - is_shadow(run.marks, position);
        }
    }
    for (int step = LANES / 2; step > 0; step /= 2) worth += __shfl_xor_sync(~0u, worth, step);
    if (here && thread % LANES == 0) shadows[index] = static_cast<uint8_t>(worth);
}

}  // namespace gpulsm

using namespace gpulsm;

/// Writes a byte for each of the `*len` keys, at most `bound`: 1 if it is live in the older runs.
GPULSM_EXPORT gpulsm_shadows(int key_width, const void* keys, const uint64_t* len, uint64_t bound,
                             const View<char, char>* older, uint8_t* shadows, cudaStream_t stream) {
    return with_key(key_width, [&](auto key) -> int {
        using Key = typename decltype(key)::type;
        auto view = typed<Key, Nothing>(*older);
        const Key* typed_keys = static_cast<const Key*>(keys);
        // As many threads for a key as there are older runs, as long as all can run at once.
        uint64_t lanes = 1;
        while (lanes < view.count && lanes < 8 && bound * lanes < SHADOW_THREADS) lanes *= 2;
        auto find = lanes == 1   ? shadows_kernel<Key, 1>
                    : lanes == 2 ? shadows_kernel<Key, 2>
                    : lanes == 4 ? shadows_kernel<Key, 4>
                                 : shadows_kernel<Key, 8>;
        find<<<blocks_for(bound * lanes, THREADS), THREADS, 0, stream>>>(typed_keys, len, view, shadows);
        return cudaGetLastError();
    });
}
