// Counts keys: sums of marks between two searches per run, by whole warps or, where there are few queries, by
// several threads each.
#include "without_iostream.cuh"

#include <cub/device/device_scan.cuh>

#include "dispatch.cuh"
#include "run/index.cuh"
#include "run/warp.cuh"

namespace gpulsm {

/// Counts the keys of ranges, and finds the windows of ranges in the runs: first position and end, for all ranges
/// in one run after the other. Either output may be null.
template <class Key>
__global__ void __launch_bounds__(THREADS, INDEX_BLOCKS<Key>)
count_kernel(const __grid_constant__ View<Key, Nothing> view, const Key* lo, const Key* hi, uint64_t len,
             uint32_t max_top_fences, ulonglong2* windows, uint64_t* counts) {
    extern __shared__ __align__(16) unsigned char shared[];
    __shared__ Index<Key, Nothing> index;
    index.load(view, reinterpret_cast<Key*>(shared), max_top_fences);
    for_each_in_warps(len, [&](uint64_t at) {
        Key from = at < len ? lo[at] : 1, to = at < len ? hi[at] : 0;
        bool is_active = from <= to, to_the_end = to == HIGHEST<Key>;
        int64_t sum = 0;
        for (int run = 0; run < view.count; run++) {
            uint64_t start = index.find(run, from, is_active).position;
            uint64_t end = index.find(run, static_cast<Key>(to + 1), is_active && !to_the_end).position;
            if (is_active && to_the_end) end = index.len[run];
            const Sector* marks = index.runs[run].marks;
            if (is_active) sum += sum_before(marks, end) - sum_before(marks, start);
            if (windows != nullptr && at < len) windows[run * len + at] = make_ulonglong2(start, end);
        }
        if (at < len && counts != nullptr) counts[at] = sum;
    });
}

/// Ranks many keys, by whole warps.
template <class Key>
__global__ void __launch_bounds__(THREADS, RANK_BLOCKS<Key>)
rank_kernel(const __grid_constant__ View<Key, Nothing> view, const Key* keys, uint64_t len, uint32_t max_top_fences,
            uint64_t* ranks) {
    extern __shared__ __align__(16) unsigned char shared[];
    __shared__ Index<Key, Nothing> index;
    index.load(view, reinterpret_cast<Key*>(shared), max_top_fences);
    for_each_in_warps(len, [&](uint64_t at) {
        Key key = at < len ? keys[at] : 0;
        int64_t sum = 0;
        for (int run = 0; run < view.count; run++) sum += index.sum_less(run, key, at < len);
        if (at < len) ranks[at] = sum;
    });
}

/// Counts few ranges: `LANES` threads search for the two ends of each in every run.
template <int LANES, class Key>
__global__ void __launch_bounds__(THREADS, 4)
count_few_kernel(const __grid_constant__ View<Key, Nothing> view, const Key* lo, const Key* hi, uint64_t len,
                 ulonglong2* windows, uint64_t* counts) {
    uint64_t thread = blockIdx.x * static_cast<uint64_t>(THREADS) + threadIdx.x, at = thread / LANES;
    int64_t sum = 0;
    for (unsigned end = thread % LANES; at < len && end < 2 * view.count; end += LANES) {
        const RunView<Key, Nothing>& run = view.runs[end / 2];
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
    sum = sum_lanes(sum, LANES);
    if (at < len && counts != nullptr && thread % LANES == 0) counts[at] = sum;
}

/// Ranks few keys: `LANES` threads per key, each of which searches some of the runs.
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
    sum = sum_lanes(sum, LANES);
    if (index < len && thread % LANES == 0) ranks[index] = sum;
}

}  // namespace gpulsm

using namespace gpulsm;

/// Writes the number of keys in each closed range, unless `counts` is null, and the window of each range in every
/// run, unless `windows` is null.
GPULSM_EXPORT gpulsm_count(int key_width, const View<char, char>* view, const void* lo, const void* hi,
                           uint64_t len, ulonglong2* windows, uint64_t* counts, cudaStream_t stream) {
    return with_key(key_width, [&](auto key) -> int {
        using Key = typename decltype(key)::type;
        return with_lanes<Key>(len, 2 * view->count, [&](auto lanes) -> int {
            auto from = static_cast<const Key*>(lo), to = static_cast<const Key*>(hi);
            if constexpr (lanes == 1) {
                IndexLaunch launch = IndexLaunch::of<Key>(len, view->count);
                count_kernel<<<launch.blocks, THREADS, launch.bytes, stream>>>(
                    typed<Key, Nothing>(*view), from, to, len, launch.max_top_fences, windows, counts);
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
        return with_lanes<Key>(len, view->count, [&](auto lanes) -> int {
            auto queries = static_cast<const Key*>(keys);
            if constexpr (lanes == 1) {
                IndexLaunch launch = IndexLaunch::of<Key>(len, view->count, RANK_BLOCKS<Key>);
                rank_kernel<<<launch.blocks, THREADS, launch.bytes, stream>>>(
                    typed<Key, Nothing>(*view), queries, len, launch.max_top_fences, ranks);
            } else {
                rank_few_kernel<lanes><<<blocks_for(len * lanes, THREADS), THREADS, 0, stream>>>(
                    typed<Key, Nothing>(*view), queries, len, ranks);
            }
            return cudaGetLastError();
        });
    });
}

/// Replaces counts by their running sums. If `temp` is null, only returns how many bytes of it are needed.
GPULSM_EXPORT gpulsm_prefix_sum(void* temp, size_t* temp_bytes, uint64_t* counts, uint64_t len, cudaStream_t stream) {
    return cub::DeviceScan::InclusiveSum(temp, *temp_bytes, counts, counts, len, stream);
}
