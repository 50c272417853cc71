// Counting: sums of marks between two searches per run, by whole warps, or, where there is little to count,
// by several threads for each.
#include "without_iostream.cuh"

#include <cub/device/device_scan.cuh>

#include "dispatch.cuh"
#include "index.cuh"
#include "lanes.cuh"

namespace gpulsm {

/// How many keys ranges have, and where they begin and end in the runs: first positions and ends, of all
/// ranges in one run after the other. Either may be null.
template <class Key>
__global__ void __launch_bounds__(THREADS, INDEX_BLOCKS<Key>)
count_kernel(const __grid_constant__ View<Key, Nothing> view, const Key* lo, const Key* hi, uint64_t len,
             uint32_t tops, ulonglong2* windows, uint64_t* counts) {
    extern __shared__ __align__(16) unsigned char room[];
    __shared__ Index<Key, Nothing> index;
    index.load(view, reinterpret_cast<Key*>(room), tops);
    for_each_in_warps(len, [&](uint64_t at) {
        Key from = at < len ? lo[at] : 1, to = at < len ? hi[at] : 0;
        bool looks = from <= to, to_the_end = to == HIGHEST<Key>;
        int64_t sum = 0;
        for (int run = 0; run < view.count; run++) {
            uint64_t start = index.find(run, from, looks).position;
            uint64_t end = index.find(run, static_cast<Key>(to + 1), looks && !to_the_end).position;
            if (looks && to_the_end) end = index.len[run];
            const Sector* marks = index.runs[run].marks;
            if (looks) sum += sum_before(marks, end) - sum_before(marks, start);
            if (windows != nullptr && at < len) windows[run * len + at] = make_ulonglong2(start, end);
        }
        if (at < len && counts != nullptr) counts[at] = sum;
    });
}

template <class Key>
__global__ void __launch_bounds__(THREADS, RANK_BLOCKS<Key>)
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

/// The same for few ranges: `LANES` threads for the ends of each in every run.
template <int LANES, class Key>
__global__ void __launch_bounds__(THREADS, 4)
count_few_kernel(const __grid_constant__ View<Key, Nothing> view, const Key* lo, const Key* hi, uint64_t len,
                 ulonglong2* windows, uint64_t* counts) {
    uint64_t thread = blockIdx.x * static_cast<uint64_t>(THREADS) + threadIdx.x, at = thread / LANES;
    int64_t sum = 0;
    for (unsigned end = thread % LANES; at < len && end < 2 * view.count; end += LANES) {
        const Run<Key, Nothing>& run = view.runs[end / 2];
        bool is_upper = end % 2;
        Key bound = is_upper ? hi[at] : lo[at];
        bool to_the_end = is_upper && bound == HIGHEST<Key>;
        uint64_t position = 0;
        if (lo[at] <= hi[at]) {
            position = to_the_end ? length(run) : lower_bound_wide(run, static_cast<Key>(bound + is_upper));
            int64_t before = sum_before(run.marks, position);
            sum += is_upper ? before : -before;
        }
        if (windows != nullptr) reinterpret_cast<uint64_t*>(windows + end / 2 * len + at)[is_upper] = position;
    }
    sum = add_up_lanes(sum, LANES);
    if (at < len && counts != nullptr && thread % LANES == 0) counts[at] = sum;
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
    sum = add_up_lanes(sum, LANES);
    if (index < len && thread % LANES == 0) ranks[index] = sum;
}

}  // namespace gpulsm

using namespace gpulsm;

/// Writes how many keys each closed range has, unless `counts` is null, and where it begins and ends in every
/// run, unless `windows` is.
GPULSM_EXPORT gpulsm_count(int key_width, const View<char, char>* view, const void* lo, const void* hi,
                           uint64_t len, ulonglong2* windows, uint64_t* counts, cudaStream_t stream) {
    return with_key(key_width, [&](auto key) -> int {
        using Key = typename decltype(key)::type;
        return with_lanes(len, 2 * view->count, [&](auto lanes) -> int {
            auto from = static_cast<const Key*>(lo), to = static_cast<const Key*>(hi);
            if constexpr (lanes == 1) {
                IndexLaunch launch = IndexLaunch::of<Key>(len, view->count);
                count_kernel<<<launch.blocks, THREADS, launch.bytes, stream>>>(typed<Key, Nothing>(*view), from, to, len,
                                                                                launch.tops, windows, counts);
            } else {
                count_few_kernel<lanes><<<blocks_for(len * lanes, THREADS), THREADS, 0, stream>>>(
                    typed<Key, Nothing>(*view), from, to, len, windows, counts);
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
                IndexLaunch launch = IndexLaunch::of<Key>(len, view->count, RANK_BLOCKS<Key>);
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
