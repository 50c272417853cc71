// Looks up keys: filters tell which runs may contain a key, and the newest run that contains it decides.
#include "dispatch.cuh"
#include "run/filter.cuh"
#include "run/index.cuh"
#include "run/warp.cuh"

namespace gpulsm {

/// Looks up many keys, by whole warps.
template <class Key, class Value>
__global__ void __launch_bounds__(THREADS, INDEX_BLOCKS<Key>)
lookup_kernel(const __grid_constant__ View<Key, Value> view, const __grid_constant__ Filters filters, const Key* keys,
              uint64_t len, uint32_t max_top_fences, Value* values, uint8_t* found) {
    extern __shared__ __align__(16) unsigned char shared[];
    __shared__ Index<Key, Value> index;
    index.load(view, reinterpret_cast<Key*>(shared), max_top_fences);
    int count = static_cast<int>(view.count);
    for_each_in_warps(len, [&](uint64_t at) {
        Key key = at < len ? keys[at] : 0;
        uint64_t runs = at < len ? runs_that_may_contain(filters, count, key) : 0;
        bool is_found = false;
        Value value = zero<Value>();
        // Each lane searches the newest run that it has not searched yet, independently of the others.
        while (__any_sync(~0u, runs != 0)) {
            int run = runs == 0 ? 0 : __ffsll(runs) - 1;
            SearchResult result = index.find(run, key, runs != 0);
            runs &= runs - 1;
            if (!result.is_match) continue;
            runs = 0;
            is_found = is_live(index.runs[run].marks, result.position);
            if (is_found && values != nullptr) value = value_at(index.runs[run].values, result.position);
        }
        if (at >= len) return;
        found[at] = is_found;
        if (sizeof(Value) > 1 && values != nullptr) values[at] = value;
    });
}

/// Looks up few keys: `LANES` threads per key, each of which searches some of the runs.
template <int LANES, class Key, class Value>
__global__ void __launch_bounds__(THREADS, FEW_BLOCKS<Key>)
lookup_few_kernel(const __grid_constant__ View<Key, Value> view, const __grid_constant__ Filters filters,
                  const Key* keys, uint64_t len, Value* values, uint8_t* found) {
    // Copy the view: kernel parameters are slow to read where threads read different addresses.
    __shared__ RunView<Key, Value> runs[MAX_RUNS];
    __shared__ uint64_t lens[MAX_RUNS];
    uint64_t thread = blockIdx.x * static_cast<uint64_t>(THREADS) + threadIdx.x, at = thread / LANES;
    int count = static_cast<int>(view.count), newest = count;
    Key key = at < len ? keys[at] : 0;
    if (threadIdx.x < count) {
        runs[threadIdx.x] = view.runs[threadIdx.x];
        lens[threadIdx.x] = length(view.runs[threadIdx.x]);
    }
    __syncthreads();
    FilterPlace filter_place(key);
    uint64_t position = 0;
    for (int first = 0; first < count; first += LANES) {
        int run = first + thread % LANES;
        const Key* inner = nullptr;
        uint64_t node = 0, end = 0;
        if (at < len && run < count && newest == count &&
            may_contain(filters.words[run], filters.len[run], filter_place)) {
            end = lens[run];
            const Key* outer = runs[run].outer;
            uint32_t fences = outer_fences(end);
            uint32_t fence = LANES > 4 ? lower_bound_wide(outer, fences, key) : lower_bound(outer, fences, key);
            node = fence * uint64_t{NODE};
            if (fence < fences) inner = runs[run].inner + node;
        }
        SearchResult result = find_below(runs[inner == nullptr ? 0 : run], inner, node, end, key);
        if (!result.is_match) continue;
        newest = run;
        position = result.position;
    }
    int newest_of_all = newest;
    for (int step = LANES / 2; step > 0; step /= 2) {
        newest_of_all = min(newest_of_all, __shfl_xor_sync(~0u, newest_of_all, step));
    }
    // The lane that found the key answers; if none did, the first.
    if (at >= len || newest != newest_of_all || (newest_of_all == count && thread % LANES != 0)) return;
    bool is_found = newest < count && is_live(runs[newest].marks, position);
    found[at] = is_found;
    if (sizeof(Value) > 1 && values != nullptr) {
        values[at] = is_found ? value_at(runs[newest].values, position) : zero<Value>();
    }
}

}  // namespace gpulsm

using namespace gpulsm;

/// Writes whether each key is present and, unless `values` is null, its value.
GPULSM_EXPORT gpulsm_lookup(int key_width, int value_width, const View<char, char>* view, const Filters* filters,
                            const void* keys, uint64_t len, void* values, uint8_t* found, cudaStream_t stream) {
    return with_pair(key_width, value_width, [&](auto key, auto value) -> int {
        using Key = typename decltype(key)::type;
        using Value = typename decltype(value)::type;
        auto runs = typed<Key, Value>(*view);
        auto queries = static_cast<const Key*>(keys);
        auto to = static_cast<Value*>(values);
        return with_lanes<Key>(len, view->count, [&](auto lanes) -> int {
            if constexpr (lanes == 1) {
                IndexLaunch launch = IndexLaunch::of<Key>(len, view->count);
                lookup_kernel<<<launch.blocks, THREADS, launch.bytes, stream>>>(
                    runs, *filters, queries, len, launch.max_top_fences, to, found);
            } else {
                lookup_few_kernel<lanes><<<blocks_for(len * lanes, THREADS), THREADS, 0, stream>>>(
                    runs, *filters, queries, len, to, found);
            }
            return cudaGetLastError();
        });
    });
}
