// Looks up the values of keys in a dictionary that combines values: from the newest run on, up to an entry that combines
// with nothing older.
#include "dispatch.cuh"
#include "query/combine_queries.cuh"
#include "run/filter.cuh"
#include "run/index.cuh"

namespace gpulsm {

/// Looks up combined values, by whole warps.
template <class Key, class Value>
__global__ void __launch_bounds__(THREADS, INDEX_BLOCKS<Key> - 1)
combine_kernel(const __grid_constant__ View<Key, Value> view, const __grid_constant__ Filters filters,
               const __grid_constant__ CombineQueries<Key, Value> queries, uint32_t max_top_fences) {
    extern __shared__ __align__(16) unsigned char shared[];
    __shared__ Index<Key, Value> index;
    index.load(view, reinterpret_cast<Key*>(shared), max_top_fences);
    int count = static_cast<int>(view.count);
    uint64_t len = queries.number();
    for_each_in_warps(len, [&](uint64_t at) {
        bool is_wanted = at < len && (!queries.are_answers || queries.found[at] != 0);
        Key key = is_wanted ? queries.keys[at] : 0;
        uint64_t runs = is_wanted ? runs_that_may_contain(filters, count, key) : 0;
        bool is_found = false;
        Value value = zero<Value>();
        // Each lane searches the newest run that it has not searched yet, independently of the others.
        while (__any_sync(~0u, runs != 0)) {
            int run = runs == 0 ? 0 : __ffsll(runs) - 1;
            SearchResult result = index.find(run, key, runs != 0);
            runs &= runs - 1;
            if (!result.is_match) continue;
            const RunView<Key, Value>& of = index.runs[run];
            if (!is_live(of.marks, result.position)) {
                runs = 0;
                continue;
            }
            Value older = value_at(of.values, result.position);
            value = is_found ? view.combiner.combine(older, value) : older;
            is_found = true;
            if (!combines_with_older(of.marks, result.position)) runs = 0;
        }
        if (at >= len) return;
        queries.values[at] = value;
        if (queries.found != nullptr) queries.found[at] = is_found;
    });
}

}  // namespace gpulsm

using namespace gpulsm;

/// Writes whether each key is present, and its value.
GPULSM_EXPORT gpulsm_combine(int key_width, int value_width, const View<char, char>* view, const Filters* filters,
                             const CombineQueries<char, char>* queries, cudaStream_t stream) {
    return with_pair(key_width, value_width, [&](auto key, auto value) -> int {
        using Key = typename decltype(key)::type;
        using Value = typename decltype(value)::type;
        if constexpr (sizeof(Value) == 1) {
            return cudaErrorInvalidValue;  // A set has no values.
        } else {
            IndexLaunch launch = IndexLaunch::of<Key>(queries->len, view->count, INDEX_BLOCKS<Key> - 1);
            combine_kernel<<<launch.blocks, THREADS, launch.bytes, stream>>>(
                typed<Key, Value>(*view), *filters, reinterpret_cast<const CombineQueries<Key, Value>&>(*queries),
                launch.max_top_fences);
            return cudaGetLastError();
        }
    });
}
