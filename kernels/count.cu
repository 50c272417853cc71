// Counting: sums of marks between two searches per run, by a thread each, or by several where there are
// few to count.
#include <cub/device/device_scan.cuh>

#include "dispatch.cuh"
#include "lanes.cuh"
#include "../include/gpulsm/queries.cuh"

namespace gpulsm {

template <int LANES, class Key>
__global__ void __launch_bounds__(THREADS)
count_kernel(const __grid_constant__ View<Key, Nothing> view, const Key* lo, const Key* hi, uint64_t len,
             uint64_t* counts) {
    uint64_t thread = blockIdx.x * static_cast<uint64_t>(THREADS) + threadIdx.x, index = thread / LANES;
    int64_t sum = 0;
    if (index < len) {
        Key from = lo[index], to = hi[index];
        for (unsigned run = thread % LANES; run < view.count; run += LANES) sum += sum_between(view.runs[run], from, to);
    }
    sum = add_up_lanes<LANES>(sum);
    if (index < len && thread % LANES == 0) counts[index] = sum;
}

template <int LANES, class Key>
__global__ void __launch_bounds__(THREADS)
rank_kernel(const __grid_constant__ View<Key, Nothing> view, const Key* keys, uint64_t len, uint64_t* ranks) {
    uint64_t thread = blockIdx.x * static_cast<uint64_t>(THREADS) + threadIdx.x, index = thread / LANES;
    int64_t sum = 0;
    if (index < len) {
        Key key = keys[index];
        for (unsigned run = thread % LANES; run < view.count; run += LANES) {
            sum += sum_before(view.runs[run].marks, lower_bound(view.runs[run], key));
        }
    }
    sum = add_up_lanes<LANES>(sum);
    if (index < len && thread % LANES == 0) ranks[index] = sum;
}

}  // namespace gpulsm

using namespace gpulsm;

/// Writes how many keys each closed range has.
GPULSM_EXPORT gpulsm_count(int key_width, const View<char, char>* view, const void* lo, const void* hi,
                           uint64_t len, uint64_t* counts, cudaStream_t stream) {
    return with_key(key_width, [&](auto key) -> int {
        using Key = typename decltype(key)::type;
        return with_lanes(len, view->count, [&](auto lanes) -> int {
            count_kernel<lanes><<<blocks_for(len * lanes, THREADS), THREADS, 0, stream>>>(
                typed<Key, Nothing>(*view), static_cast<const Key*>(lo), static_cast<const Key*>(hi), len, counts);
            return cudaGetLastError();
        });
    });
}

/// Writes how many keys are less than each key.
GPULSM_EXPORT gpulsm_rank(int key_width, const View<char, char>* view, const void* keys, uint64_t len,
                          uint64_t* ranks, cudaStream_t stream) {
    return with_key(key_width, [&](auto key) -> int {
        using Key = typename decltype(key)::type;
        return with_lanes(len, view->count, [&](auto lanes) -> int {
            rank_kernel<lanes><<<blocks_for(len * lanes, THREADS), THREADS, 0, stream>>>(
                typed<Key, Nothing>(*view), static_cast<const Key*>(keys), len, ranks);
            return cudaGetLastError();
        });
    });
}

/// Turns counts into running sums, in place. With `temp` null, only says how many bytes of it there
/// must be.
GPULSM_EXPORT gpulsm_add_up(void* temp, size_t* temp_bytes, uint64_t* counts, uint64_t len, cudaStream_t stream) {
    return cub::DeviceScan::InclusiveSum(temp, *temp_bytes, counts, counts, len, stream);
}
