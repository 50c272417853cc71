// Looking keys up: filters say which runs may have a key, and the newest of those that has it decides.
#include "dispatch.cuh"
#include "filter.cuh"
#include "index.cuh"

namespace gpulsm {

template <class Key, class Value>
__global__ void __launch_bounds__(THREADS, INDEX_BLOCKS<Key>)
lookup_kernel(const __grid_constant__ View<Key, Value> view, const __grid_constant__ Filters filters, const Key* keys,
              uint64_t len, uint32_t tops, Value* values, uint8_t* found) {
    extern __shared__ __align__(16) unsigned char room[];
    __shared__ Index<Key, Value> index;
    index.load(view, reinterpret_cast<Key*>(room), tops);
    int count = static_cast<int>(view.count);
    for_each_in_warps(len, [&](uint64_t at) {
        Key key = at < len ? keys[at] : 0;
        uint64_t runs = at < len ? runs_with(filters, count, key) : 0;
        bool is_live_here = false;
        Value value = zero<Value>();
        // Each lane asks the newest run that it has not asked yet, whatever the others ask.
        while (__any_sync(~0u, runs != 0)) {
            int run = runs == 0 ? 0 : __ffsll(runs) - 1;
            Place place = index.find(run, key, runs != 0);
            runs &= runs - 1;
            if (!place.is_here) continue;
            runs = 0;
            is_live_here = is_live(index.runs[run].marks, place.position);
            if (is_live_here && values != nullptr) value = value_at(index.runs[run].values, place.position);
        }
        if (at >= len) return;
        found[at] = is_live_here;
        if (sizeof(Value) > 1 && values != nullptr) values[at] = value;
    });
}

}  // namespace gpulsm

using namespace gpulsm;

/// Writes whether each key is there and, unless `values` is null, its value.
GPULSM_EXPORT gpulsm_lookup(int key_width, int value_width, const View<char, char>* view, const Filters* filters,
                            const void* keys, uint64_t len, void* values, uint8_t* found, cudaStream_t stream) {
    return with_pair(key_width, value_width, [&](auto key, auto value) -> int {
        using Key = typename decltype(key)::type;
        using Value = typename decltype(value)::type;
        IndexLaunch launch = IndexLaunch::of<Key>(len, view->count);
        lookup_kernel<<<launch.blocks, THREADS, launch.bytes, stream>>>(
            typed<Key, Value>(*view), *filters, static_cast<const Key*>(keys), len, launch.tops,
            static_cast<Value*>(values), found);
        return cudaGetLastError();
    });
}
