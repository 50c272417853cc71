// Counting: sums of marks between two searches per run, by whole warps, or, where there is little to count,
// by several threads for each.
#include <cub/device/device_scan.cuh>

#include "dispatch.cuh"
#include "index.cuh"
#include "lanes.cuh"

namespace gpulsm {

template <class Key>
__global__ void __launch_bounds__(THREADS, INDEX_BLOCKS<Key>)
count_kernel(const __grid_constant__ View<Key, Nothing> view, const Key* lo, const Key* hi, uint64_t len,
             uint32_t tops, uint64_t* counts) {
    extern __shared__ __align__(16) unsigned char room[];
    __shared__ Index<Key, Nothing> index;
    index.load(view, reinterpret_cast<Key*>(room), tops);
    for_each_in_warps(len, [&](uint64_t at) {
        Key from = at < len ? lo[at] : 1, to = at < len ? hi[at] : 0;
        bool looks = from <= to, to_the_end = to == HIGHEST<Key>;
        int64_t sum = 0;
        for (int run = 0; run < view.count; run++) {
            sum -= index.sum_less(run, from, looks);
            sum += index.sum_less(run, static_cast<Key>(to + 1), looks && !to_the_end);
            if (looks && to_the_end) sum += sum_before(index.runs[run].marks, index.len[run]);
        }
        if (at < len) counts[at] = sum;
    });
}

template <class Key>
__global__ void __launch_bounds__(THREADS, INDEX_BLOCKS<Key>)
rank_kernel(const __grid_constant__ View<Key, Nothing> view, const Key* keys, uint64_t len, uint32_t tops,
            uint64_t* ranks) {
    extern __shared__ __align__(16) unsigned char room[];
    __shared__ Index<Key, Nothing> index;
    index.load(view, reinterpret_cast<Key*>(room), tops);
    for_each_in_warps(len, [&](uint64_t at) {
        Key key = at < len ? keys[at] : 0;
        int64_t sum = 0;
        for (int run = 0; run < view.count; run++) sum += index.sum_less(run, key, at < len);
        if (at < len) ranks[at] = sum;
    });
}

/// `LANES` threads for each end of each range, and each run; as long as all of them can run at once.
template <int LANES, class Key>
__global__ void __launch_bounds__(THREADS, 4)
count_few_kernel(const __grid_constant__ View<Key, Nothing> view, const Key* lo, const Key* hi, uint64_t len,
                 uint64_t* counts) {
    uint64_t thread = blockIdx.x * static_cast<uint64_t>(THREADS) + threadIdx.x, index = thread / LANES;
    int64_t sum = 0;
    if (index < len && lo[index] <= hi[index]) {
        for (unsigned end = thread % LANES; end < 2 * view.count; end += LANES) {
            const Run<Key, Nothing>& run = view.runs[end / 2];
            bool is_upper = end % 2;
            Key bound = is_upper ? hi[index] : lo[index];
            bool to_the_end = is_upper && bound == HIGHEST<Key>;
            uint64_t position = to_the_end ? length(run) : lower_bound_wide(run, static_cast<Key>(bound + is_upper));
            int64_t before = sum_before(run.marks, position);
            sum += is_upper ? before : -before;
        }
    }
    sum = add_up_lanes<LANES>(sum);
    if (index < len && thread % LANES == 0) counts[index] = sum;
}

template <int LANES, class Key>
__global__ void __launch_bounds__(THREADS, 4)
rank_few_kernel(const __grid_constant__ View<Key, Nothing> view, const Key* keys, uint64_t len, uint64_t* ranks) {
    uint64_t thread = blockIdx.x * static_cast<uint64_t>(THREADS) + threadIdx.x, index = thread / LANES;
    int64_t sum = 0;
    if (index < len) {
        Key key = keys[index];
        for (unsigned run = thread % LANES; run < view.count; run += LANES) {
            sum += sum_before(view.runs[run].marks, lower_bound_wide(view.runs[run], key));
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
        return with_lanes(len, 2 * view->count, [&](auto lanes) -> int {
            auto from = static_cast<const Key*>(lo), to = static_cast<const Key*>(hi);
            if constexpr (lanes == 1) {
                IndexLaunch launch = IndexLaunch::of<Key>(len, view->count);
                count_kernel<<<launch.blocks, THREADS, launch.bytes, stream>>>(typed<Key, Nothing>(*view), from, to, len,
                                                                                launch.tops, counts);
            } else {
                count_few_kernel<lanes><<<blocks_for(len * lanes, THREADS), THREADS, 0, stream>>>(
                    typed<Key, Nothing>(*view), from, to, len, counts);
            }
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
            auto asked = static_cast<const Key*>(keys);
            if constexpr (lanes == 1) {
                IndexLaunch launch = IndexLaunch::of<Key>(len, view->count);
                rank_kernel<<<launch.blocks, THREADS, launch.bytes, stream>>>(typed<Key, Nothing>(*view), asked, len,
                                                                              launch.tops, ranks);
            } else {
                rank_few_kernel<lanes><<<blocks_for(len * lanes, THREADS), THREADS, 0, stream>>>(
                    typed<Key, Nothing>(*view), asked, len, ranks);
            }
            return cudaGetLastError();
        });
    });
}

/// Turns counts into running sums, in place. With `temp` null, only says how many bytes of it there
/// must be.
GPULSM_EXPORT gpulsm_add_up(void* temp, size_t* temp_bytes, uint64_t* counts, uint64_t len, cudaStream_t stream) {
    return cub::DeviceScan::InclusiveSum(temp, *temp_bytes, counts, counts, len, stream);
}
