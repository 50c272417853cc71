// Finds successors and predecessors, by whole warps. Their values are those of the newest runs that hold them; where
// values combine, `combine.cu` replaces them.
#include "dispatch.cuh"
#include "query/pairs_output.cuh"
#include "run/index.cuh"

namespace gpulsm {

/// Finds the nearest live key on one side of each key.
template <class Key, class Value>
__global__ void __launch_bounds__(THREADS, NEAREST_BLOCKS)
nearest_kernel(const __grid_constant__ View<Key, Value> view, bool is_successor, const Key* keys, uint64_t len,
               uint32_t max_top_fences, PairsOutput<Key, Value> out) {
    extern __shared__ __align__(16) unsigned char shared[];
    __shared__ Index<Key, Value> index;
    index.load(view, reinterpret_cast<Key*>(shared), max_top_fences);
    for_each_in_warps(len, [&](uint64_t at) {
        Key from = at < len ? keys[at] : 0;
        // Search for the first key not less than `from` (successor), or greater (predecessor).
        bool to_the_end = !is_successor && from == HIGHEST<Key>;
        Key bound = is_successor ? from : static_cast<Key>(from + 1);
        int nearest = -1;
        uint64_t position = 0;
        Key key = 0;
        for (int run = 0; run < view.count; run++) {
            uint64_t before = index.find(run, bound, at < len && !to_the_end).position;
            if (to_the_end) before = index.len[run];
            if (at >= len || before == (is_successor ? index.len[run] : 0)) continue;
            uint64_t own = is_successor ? before : before - 1;
            Key next = read_key(index.runs[run].keys + own);
            if (nearest < 0 || (is_successor ? next < key : next > key)) nearest = run, position = own, key = next;
        }
        if (at >= len) return;
        if (nearest >= 0 && !is_live(index.runs[nearest].marks, position)) {
            // The nearest key is dead, and the ones beyond it may be dead too.
            bool is_edge = key == (is_successor ? HIGHEST<Key> : 0);
            Key beyond = is_successor ? key + 1 : key - 1;
            nearest = is_edge ? -1
                      : is_successor ? find_successor(view, beyond, key, position)
                                     : find_predecessor(view, beyond, key, position);
        }
        bool found = nearest >= 0;
        Value value = found ? value_at(index.runs[nearest].values, position) : zero<Value>();
        out.write(at, found, found ? key : 0, value);
    });
}

}  // namespace gpulsm

using namespace gpulsm;

/// Writes the nearest pair on one side of each key, the key itself included.
GPULSM_EXPORT gpulsm_nearest(int key_width, int value_width, const View<char, char>* view, bool is_successor,
                             const void* keys, uint64_t len, const PairsOutput<char, char>* out, cudaStream_t stream) {
    return with_pair(key_width, value_width, [&](auto key, auto value) -> int {
        using Key = typename decltype(key)::type;
        using Value = typename decltype(value)::type;
        IndexLaunch launch = IndexLaunch::of<Key>(len, view->count, NEAREST_BLOCKS);
        nearest_kernel<<<launch.blocks, THREADS, launch.bytes, stream>>>(
            typed<Key, Value>(*view), is_successor, static_cast<const Key*>(keys), len, launch.max_top_fences,
            reinterpret_cast<const PairsOutput<Key, Value>&>(*out));
        return cudaGetLastError();
    });
}
