// Builds the filter of a run.
#include "dispatch.cuh"
#include "run/filter.cuh"
#include "tuning.cuh"

namespace gpulsm {

/// Adds the keys of a run to its filter, by a thread each.
template <class Key>
__global__ void __launch_bounds__(THREADS)
filter_kernel(const Key* keys, const uint64_t* len, unsigned long long* words, uint32_t words_len) {
    uint64_t index = blockIdx.x * static_cast<uint64_t>(THREADS) + threadIdx.x;
    if (index < *len) add_to(words, words_len, keys[index]);
}

}  // namespace gpulsm

using namespace gpulsm;

/// Adds the `*len` keys of a run, at most `bound`, to a zeroed filter.
GPULSM_EXPORT gpulsm_filter(int key_width, const void* keys, const uint64_t* len, uint64_t bound,
                            unsigned long long* words, uint32_t words_len, cudaStream_t stream) {
    return with_key(key_width, [&](auto key) -> int {
        using Key = typename decltype(key)::type;
        filter_kernel<<<blocks_for(bound, THREADS), THREADS, 0, stream>>>(static_cast<const Key*>(keys), len, words,
                                                                           words_len);
        return cudaGetLastError();
    });
}

/// Computes the place of a key in a filter on the host, for the test that the CPU uses the same.
extern "C" void gpulsm_filter_place(uint64_t high, uint64_t low, uint32_t* fraction, uint64_t* bits) {
    FilterPlace place(static_cast<WideKey>(high) << 64 | low);
    *fraction = place.fraction;
    *bits = place.bits;
}
