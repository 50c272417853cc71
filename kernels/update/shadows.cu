// Finds the shadows of a run that has no marks yet.
#include "update/shadows.cuh"

namespace gpulsm {

/// Finds the shadows of a run, without filters.
template <int LANES, class Key>
__global__ void __launch_bounds__(THREADS, 4)
shadows_kernel(ShadowQueries<Key> batch, const __grid_constant__ View<Key, Nothing> older,
               const __grid_constant__ Filters no_filters) {
    find_shadows<LANES>(batch, older, no_filters, blockIdx.x);
}

}  // namespace gpulsm

using namespace gpulsm;

/// Writes a byte for each of the `*len` keys, at most `bound`: 1 if the key is live in the older runs.
GPULSM_EXPORT gpulsm_shadows(int key_width, const void* keys, const uint64_t* len, uint64_t bound,
                             const View<char, char>* older, uint8_t* shadows, cudaStream_t stream) {
    return with_key(key_width, [&](auto key) -> int {
        using Key = typename decltype(key)::type;
        return with_lanes<Key>(bound, older->count, [&](auto lanes) -> int {
            shadows_kernel<lanes><<<blocks_for(bound * lanes, THREADS), THREADS, 0, stream>>>(
                ShadowQueries<Key>{static_cast<const Key*>(keys), len, bound, shadows}, typed<Key, Nothing>(*older),
                Filters{});
            return cudaGetLastError();
        }, SHADOW_THREADS);
    });
}
