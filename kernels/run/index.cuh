// Searches runs by whole warps. A few top fences of every run are in shared memory; below that, threads read each
// other's nodes, which coalesces the loads of a warp. Each thread has its own key and its own run.
#pragma once

#include <gpulsm/queries.cuh>

#include "dispatch.cuh"
#include "run/warp.cuh"

namespace gpulsm {

/// The result of comparing a key with a node.
struct NodeResult {
    uint32_t less;  // how many keys of the node are less
    bool equal;     // whether the node contains the key
};

__device__ __forceinline__ uint32_t less_of(uint4 keys, uint32_t than) {
    return (keys.x < than) + (keys.y < than) + (keys.z < than) + (keys.w < than);
}

__device__ __forceinline__ uint32_t less_of(ulonglong2 keys, uint64_t than) {
    return (keys.x < than) + (keys.y < than);
}

__device__ __forceinline__ bool equal_of(uint4 keys, uint32_t to) {
    return keys.x == to || keys.y == to || keys.z == to || keys.w == to;
}

__device__ __forceinline__ bool equal_of(ulonglong2 keys, uint64_t to) { return keys.x == to || keys.y == to; }

/// Two wide keys.
struct WidePair {
    WideKey x, y;
};

__device__ __forceinline__ uint32_t less_of(const WidePair& keys, WideKey than) {
    return (keys.x < than) + (keys.y < than);
}

__device__ __forceinline__ bool equal_of(const WidePair& keys, WideKey to) { return keys.x == to || keys.y == to; }

/// What one lane reads of a node: 16 bytes, or two wide keys.
template <class Key>
using NodePart =
    std::conditional_t<sizeof(Key) == 4, uint4, std::conditional_t<sizeof(Key) == 8, ulonglong2, WidePair>>;

template <class Part>
__device__ __forceinline__ Part read_part(const Part* part) {
    if constexpr (std::is_same_v<Part, WidePair>) return {read_key(&part->x), read_key(&part->y)};
    else return __ldg(part);
}

/// Compares each lane's key with each lane's node. A node is read by a few lanes, a part each. For whole warps; the
/// result is undefined where the node is null.
template <class Key>
__device__ __forceinline__ NodeResult search_nodes(const Key* node, Key key) {
    using Part = NodePart<Key>;
    constexpr int LANES = NODE * sizeof(Key) / sizeof(Part), NODES = 32 / LANES;  // per round
    int lane = threadIdx.x % 32;
    uint32_t own = 0;
#pragma unroll
    for (int round = 0; round < LANES; round++) {
        int owner = round * NODES + lane / LANES;
        auto of = reinterpret_cast<const Part*>(__shfl_sync(~0u, reinterpret_cast<uint64_t>(node), owner));
        Key wanted = shuffle(~0u, key, owner);
        uint32_t result = 0;
        if (of != nullptr) {
            Part keys = read_part(of + lane % LANES);
            result = less_of(keys, wanted) | equal_of(keys, wanted) << 8;
        }
#pragma unroll
        for (int step = LANES / 2; step > 0; step /= 2) result += __shfl_xor_sync(~0u, result, step);
        result = __shfl_sync(~0u, result, lane % NODES * LANES);
        if (lane / NODES == round) own = result;
    }
    return {own & 0xff, own >> 8 != 0};
}

/// Returns how many keys of each lane's node are less than each lane's key. Like `search_nodes`, but issues the
/// loads of two rounds at once, for kernels with registers to spare; wide keys leave none.
template <class Key>
__device__ __forceinline__ uint32_t less_in_nodes(const Key* node, Key key) {
    if constexpr (sizeof(Key) == 16) {
        return search_nodes(node, key).less;
    } else {
        using Part = NodePart<Key>;
        constexpr int LANES = NODE * sizeof(Key) / sizeof(Part), NODES = 32 / LANES;
        int lane = threadIdx.x % 32;
        uint32_t own = 0;
#pragma unroll
        for (int round = 0; round < LANES; round += 2) {
            Part keys[2];
            Key wanted[2];
#pragma unroll
            for (int i = 0; i < 2; i++) {
                int owner = (round + i) * NODES + lane / LANES;
                auto of = reinterpret_cast<const Part*>(__shfl_sync(~0u, reinterpret_cast<uint64_t>(node), owner));
                wanted[i] = shuffle(~0u, key, owner);
                keys[i] = of == nullptr ? Part() : read_part(of + lane % LANES);
            }
#pragma unroll
            for (int i = 0; i < 2; i++) {
                uint32_t less = less_of(keys[i], wanted[i]);
#pragma unroll
                for (int step = LANES / 2; step > 0; step /= 2) less += __shfl_xor_sync(~0u, less, step);
                less = __shfl_sync(~0u, less, lane % NODES * LANES);
                if (lane / NODES == round + i) own = less;
            }
        }
        return own;
    }
}

/// The result of searching a run for a key.
struct SearchResult {
    uint64_t position;  // of the first entry whose key is not less; the length if there is none
    bool is_match;      // whether that entry has the key itself
};

/// Searches a run of `end` entries for a key, given the node of inner fences that contains the first fence not less
/// than the key, and the index of the node's first fence. The node is null if there is no such fence. For whole
/// warps.
template <class Key, class Value>
__device__ __forceinline__ SearchResult find_below(const RunView<Key, Value>& run, const Key* inner, uint64_t node,
                                                   uint64_t end, Key key) {
    NodeResult fence = search_nodes(inner, key);
    const Key* keys = inner == nullptr ? nullptr : run.keys + (node + fence.less) * NODE;
    NodeResult entry = search_nodes(keys, key);
    if (keys == nullptr) return {end, false};
    // The padding of the last node is the largest key: it may equal the key, but is not an entry.
    uint64_t position = min((node + fence.less) * NODE + entry.less, end);
    return {position, entry.equal && position < end};
}

/// The index of all runs that a block keeps in shared memory.
template <class Key, class Value>
struct Index {
    RunView<Key, Value> runs[MAX_RUNS];
    uint64_t len[MAX_RUNS];
    uint32_t fences[MAX_RUNS];     // outer fences
    uint32_t first[MAX_RUNS + 1];  // index of each run's first top fence
    uint32_t step;                 // outer fences per top fence
    Key* top_fences;

    /// Loads the index, by the whole block, with at most `room` top fences: at least twice the number of runs.
    __device__ void load(const View<Key, Value>& view, Key* storage, uint32_t room) {
        for (int run = threadIdx.x; run < view.count; run += THREADS) {
            runs[run] = view.runs[run];
            len[run] = length(view.runs[run]);
            fences[run] = outer_fences(len[run]);
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            top_fences = storage;
            uint64_t all = 0;
            for (int run = 0; run < view.count; run++) all += fences[run];
            uint32_t places = room - static_cast<uint32_t>(view.count);
            step = static_cast<uint32_t>((all + places - 1) / places);
            if (step == 0) step = 1;
            first[0] = 0;
            for (int run = 0; run < view.count; run++) first[run + 1] = first[run] + (fences[run] + step - 1) / step;
        }
        __syncthreads();
        for (int run = 0; run < view.count; run++) {
            uint32_t count = first[run + 1] - first[run];
            for (uint32_t i = threadIdx.x; i < count; i += THREADS) {
                top_fences[first[run] + i] = read_key(runs[run].outer + min((i + 1) * step, fences[run]) - 1);
            }
        }
        __syncthreads();
    }

    /// Returns the node of a run's inner fences that contains the first one not less than the key, and the index of
    /// its first fence; null if there is none.
    __device__ __forceinline__ const Key* node_of(int run, Key key, bool is_active, uint64_t& node,
                                                  uint64_t& end) const {
        const Key* inner = nullptr;
        if (is_active) {
            end = len[run];
            uint32_t start = first[run], count = first[run + 1] - start, top = 0;
            // As in `lower_bound`, in shared memory.
            for (uint32_t left = count; left > 0;) {
                uint32_t half = (left + 1) / 2;
                top = top_fences[start + top + half - 1] < key ? top + half : top;
                left -= half;
            }
            if (top < count) {
                uint32_t from = top * step;
                uint32_t outer = from + lower_bound(runs[run].outer + from, min(step, fences[run] - from), key);
                node = outer * uint64_t{NODE};
                inner = runs[run].inner + node;
            }
        }
        return inner;
    }

    /// Searches a run for a key. For whole warps; lanes without a search are not active.
    __device__ __forceinline__ SearchResult find(int run, Key key, bool is_active) const {
        uint64_t node = 0, end = 0;
        const Key* inner = node_of(run, key, is_active, node, end);
        return find_below(runs[run], inner, node, end, key);
    }

    /// Returns the sum of (live - shadow) over the entries whose keys are less.
    __device__ __forceinline__ int64_t sum_less(int run, Key key, bool is_active) const {
        uint64_t node = 0, end = 0;
        const Key* inner = node_of(run, key, is_active, node, end);
        node = (node + less_in_nodes(inner, key)) * NODE;
        const Key* keys = inner == nullptr ? nullptr : runs[run].keys + node;
        uint64_t position = node + less_in_nodes(keys, key);
        if (inner == nullptr || position > end) position = end;
        return is_active ? sum_before(runs[run].marks, position) : 0;
    }
};

/// Calls `body(at)` for every `at` below `len`, in whole warps, so also for a few numbers from `len` on.
template <class Body>
__device__ __forceinline__ void for_each_in_warps(uint64_t len, Body body) {
    uint64_t first = blockIdx.x * static_cast<uint64_t>(THREADS) + threadIdx.x;
    uint64_t stride = gridDim.x * static_cast<uint64_t>(THREADS);
    for (uint64_t at = first; at - threadIdx.x % 32 < len; at += stride) body(at);
}

/// The launch configuration of a kernel that searches by warps: as many blocks as can run at once, each with as
/// many top fences as it has keys to search for, up to `INDEX_BYTES`.
struct IndexLaunch {
    unsigned blocks;
    uint32_t max_top_fences;
    size_t bytes;

    template <class Key>
    static IndexLaunch of(uint64_t len, uint64_t runs, int blocks_per_multiprocessor = INDEX_BLOCKS<Key>) {
        unsigned blocks = blocks_at_once(len, blocks_per_multiprocessor);
        uint64_t max_top_fences = len / blocks, room = INDEX_BYTES / sizeof(Key);
        if (max_top_fences > room) max_top_fences = room;
        if (max_top_fences < 4 * runs) max_top_fences = 4 * runs;
        return {blocks, static_cast<uint32_t>(max_top_fences), max_top_fences * sizeof(Key)};
    }
};

}  // namespace gpulsm
