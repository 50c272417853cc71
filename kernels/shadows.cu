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
    uint64_t thread = blockIdx.x * static_cast<uint64_t>(THREADS) + threadIdx.x;
    uint64_t index = thread / LANES;
    bool here = index < *len;
    Key key = here ? keys[index] : 0;
    int worth = 0;
    for (unsigned at = thread % LANES; here && at < older.count; at += LANES) {
        const Run<Key, Nothing>& run = older.runs[at];
        uint64_t position = lower_bound(run, key);
        if (position < length(run) && __ldg(run.keys + position) == key) {
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
