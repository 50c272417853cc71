// The i-th pair, a thread each; the next and the one before, by whole warps.
#include "dispatch.cuh"
#include "index.cuh"

namespace gpulsm {

/// Where answers of at most one pair per query go; zeros where nothing was found.
template <class Key, class Value>
struct Pairs {
    Key* keys;
    Value* values;
    uint8_t* found;

    __device__ void write(uint64_t index, bool is_found, Key key, Value value) const {
        found[index] = is_found;
        keys[index] = key;
        if constexpr (sizeof(Value) > 1) values[index] = value;
    }
};

template <class Key, class Value>
__global__ void __launch_bounds__(THREADS)
select_kernel(const __grid_constant__ View<Key, Value> view, const uint64_t* indices, uint64_t len,
              Pairs<Key, Value> out) {
    uint64_t index = blockIdx.x * static_cast<uint64_t>(THREADS) + threadIdx.x;
    if (index >= len) return;
    Key key;
    Value value;
    bool found = select(view, indices[index], key, value);
    out.write(index, found, key, value);
}

template <class Key, class Value>
__global__ void __launch_bounds__(THREADS, INDEX_BLOCKS)
nearest_kernel(const __grid_constant__ View<Key, Value> view, bool is_successor, const Key* keys, uint64_t len,
               uint32_t tops, Pairs<Key, Value> out) {
    extern __shared__ __align__(16) unsigned char room[];
    __shared__ Index<Key, Value> index;
    index.load(view, reinterpret_cast<Key*>(room), tops);
    for_each_in_warps(len, [&](uint64_t at) {
        Key from = at < len ? keys[at] : 0;
        // Entries before the first that is not less, or, to look back, not greater.
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
            Key next = __ldg(index.runs[run].keys + own);
            if (nearest < 0 || (is_successor ? next < key : next > key)) nearest = run, position = own, key = next;
        }
        if (at >= len) return;
        Value value = zero<Value>();
        bool found = nearest >= 0;
        if (found && is_live(index.runs[nearest].marks, position)) {
            value = value_at(index.runs[nearest].values, position);
        } else if (found) {
            // A dead key, and the entries behind it may be dead too.
            bool is_edge = key == (is_successor ? HIGHEST<Key> : 0);
            Key beyond = is_successor ? key + 1 : key - 1;
            found = !is_edge && (is_successor ? successor(view, beyond, key, value) : predecessor(view, beyond, key, value));
        }
        out.write(at, found, found ? key : 0, value);
    });
}

}  // namespace gpulsm

using namespace gpulsm;

/// Writes the pair at each place in key order.
GPULSM_EXPORT gpulsm_select(int key_width, int value_width, const View<char, char>* view, const uint64_t* indices,
                            uint64_t len, const Pairs<char, char>* out, cudaStream_t stream) {
    return with_pair(key_width, value_width, [&](auto key, auto value) -> int {
        using Key = typename decltype(key)::type;
        using Value = typename decltype(value)::type;
        select_kernel<<<blocks_for(len, THREADS), THREADS, 0, stream>>>(
            typed<Key, Value>(*view), indices, len, reinterpret_cast<const Pairs<Key, Value>&>(*out));
        return cudaGetLastError();
    });
}

/// Writes the nearest pair to each key, itself included, on one side of it.
GPULSM_EXPORT gpulsm_nearest(int key_width, int value_width, const View<char, char>* view, bool is_successor,
                             const void* keys, uint64_t len, const Pairs<char, char>* out, cudaStream_t stream) {
    return with_pair(key_width, value_width, [&](auto key, auto value) -> int {
        using Key = typename decltype(key)::type;
        using Value = typename decltype(value)::type;
        IndexLaunch launch = IndexLaunch::of<Key>(len, view->count);
        nearest_kernel<<<launch.blocks, THREADS, launch.bytes, stream>>>(
            typed<Key, Value>(*view), is_successor, static_cast<const Key*>(keys), len, launch.tops,
            reinterpret_cast<const Pairs<Key, Value>&>(*out));
        return cudaGetLastError();
    });
}
