// Merging sorted sources into one run in one pass: for one key the newest entry stays, with the
// oldest one's shadow.
#include "dispatch.cuh"
#include "emit.cuh"

namespace gpulsm {

/// Runs, and the two halves of a batch.
constexpr int MAX_SOURCES = MAX_RUNS + 2;
static_assert(SLACK >= MAX_SOURCES, "a key's entries must fit into the slack of a tile");

enum class Kind : int { Run, Inserts, Deletes };

/// Entries with unique keys, in key order.
template <class Key, class Value>
struct Source {
    const Key* keys;
    const Value* values;
    const Sector* marks;     // a run's; null where every entry is new
    const uint8_t* shadows;  // a batch's, a byte each; null where nothing is older
    const uint64_t* len;
    Kind kind;

    __device__ bool live(uint64_t position) const {
        return kind == Kind::Run ? is_live(marks, position) : kind == Kind::Inserts;
    }

    __device__ bool shadow(uint64_t position) const {
        if (kind == Kind::Run) return is_shadow(marks, position);
        return shadows != nullptr && shadows[position] != 0;
    }
};

/// Newest first.
template <class Key, class Value>
struct Sources {
    Source<Key, Value> at[MAX_SOURCES];
    int count;
};

/// Entries between the cuts of two neighbouring tiles, as near as they are cut.
constexpr uint64_t STEP = TILE - SLACK;

inline uint64_t tiles_of(uint64_t bound) { return (bound + STEP - 1) / STEP; }

template <class T>
__device__ T sum_of_warp(T value) {
    for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(~0u, value, step);
    return value;
}

/// Finds where each tile begins in every source. A warp cuts at a key such that between
/// `tile * STEP - SLACK` and `tile * STEP` entries are less; each lane sees to `EACH` sources.
template <class Key, class Value, int EACH>
__global__ void __launch_bounds__(THREADS)
cut_kernel(const __grid_constant__ Sources<Key, Value> sources, uint64_t tiles, uint64_t* cuts) {
    uint64_t tile = (blockIdx.x * static_cast<uint64_t>(THREADS) + threadIdx.x) / 32;
    if (tile > tiles) return;
    unsigned lane = threadIdx.x % 32;

    // In every source a window: the cut is nowhere before it, and nowhere behind.
    uint64_t start[EACH], end[EACH], entries = 0;
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        int source = lane + 32 * i;
        start[i] = 0;
        end[i] = source < sources.count ? *sources.at[source].len : 0;
        entries += end[i];
    }
    uint64_t below = 0, above = sum_of_warp(entries);  // entries before the windows, and up to their ends
    uint64_t goal = min(tile * STEP, above);
    if (goal == above) {
#pragma unroll
        for (int i = 0; i < EACH; i++) start[i] = end[i];
        below = goal;
    }
    for (uint32_t round = 0; goal - below > SLACK; round++) {
        // A pivot from the widest window: where the goal would be if all were spread evenly; every
        // other time the middle, so that uneven ones cost no more than twice the halving.
        uint64_t widest = 0;
#pragma unroll
        for (int i = 0; i < EACH; i++) widest = max(widest, (end[i] - start[i]) << 8 | (lane + 32 * i));
        for (int step = 16; step > 0; step /= 2) widest = max(widest, __shfl_xor_sync(~0u, widest, step));
        uint64_t width = widest >> 8, owner = widest & 0xff;
        double share = static_cast<double>(goal - below) / static_cast<double>(above - below);
        uint64_t ahead = round % 2 ? width / 2 : min(static_cast<uint64_t>(width * share), width - 1);
        Key pivot = 0;
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            if (owner == lane + 32 * i) pivot = sources.at[owner].keys[start[i] + ahead];
        }
        pivot = __shfl_sync(~0u, pivot, owner % 32);

        uint64_t place[EACH], past[EACH], less = 0, up_to = 0;
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            place[i] = past[i] = start[i];
            if (start[i] < end[i]) {
                const Key* keys = sources.at[lane + 32 * i].keys;
                place[i] += lower_bound(keys + start[i], end[i] - start[i], pivot);
                past[i] = place[i] + (place[i] < end[i] && keys[place[i]] == pivot);
            }
            less += place[i];
            up_to += past[i];
        }
        less = sum_of_warp(less);
        up_to = sum_of_warp(up_to);
        if (less > goal) {
            above = less;
#pragma unroll
            for (int i = 0; i < EACH; i++) end[i] = place[i];
        } else {
            bool found = up_to > goal;  // The goal is among the entries of the pivot itself.
            below = found ? goal : up_to;
#pragma unroll
            for (int i = 0; i < EACH; i++) start[i] = found ? place[i] : past[i];
        }
    }
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        int source = lane + 32 * i;
        if (source < sources.count) cuts[tile * sources.count + source] = start[i];
    }
}

/// A tile of a merge, and which of its keys are whose.
template <class Key>
struct MergeTile {
    Tile<Key> tile;
    uint16_t order[TILE];
    uint8_t source[TILE];
    uint64_t begin[MAX_SOURCES];       // where each source's part begins there…
    uint32_t offset[MAX_SOURCES + 1];  // …and here
};

/// How many keys of a stretch come before `key`; with ties, those equal to it too.
template <class Key>
__device__ __forceinline__ uint32_t before_in(const Key* keys, uint32_t len, Key key, bool ties) {
    uint32_t start = 0;
    while (len > 0) {
        uint32_t half = len / 2;
        Key other = keys[start + half];
        bool before = other < key || (ties && other == key);
        start = before ? start + half + 1 : start;
        len = before ? len - half - 1 : half;
    }
    return start;
}

template <class Key, class Value>
__global__ void __launch_bounds__(THREADS)
merge_kernel(const __grid_constant__ Sources<Key, Value> sources, const uint64_t* cuts, bool live_only,
             Chain chain, Output<Key, Value> out) {
    __shared__ MergeTile<Key> m;
    Tile<Key>& tile = m.tile;
    uint64_t index = chain.take_tile(tile.index);

    // The part of every source, newest first.
    if (threadIdx.x < sources.count) {
        const uint64_t* cut = cuts + index * sources.count + threadIdx.x;
        m.begin[threadIdx.x] = cut[0];
        m.offset[threadIdx.x + 1] = static_cast<uint32_t>(cut[sources.count] - cut[0]);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        m.offset[0] = 0;
        for (int source = 0; source < sources.count; source++) m.offset[source + 1] += m.offset[source];
    }
    __syncthreads();
    uint32_t here = m.offset[sources.count];
    for (uint32_t item = threadIdx.x; item < here; item += THREADS) {
        int source = 0;
        while (m.offset[source + 1] <= item) source++;
        m.source[item] = static_cast<uint8_t>(source);
        tile.keys[item] = sources.at[source].keys[m.begin[source] + item - m.offset[source]];
    }
    __syncthreads();

    // Each item's place among all: newer ones of the same key come first.
    for (uint32_t item = threadIdx.x; item < here; item += THREADS) {
        int own = m.source[item];
        Key key = tile.keys[item];
        uint32_t place = item - m.offset[own];
        for (int source = 0; source < sources.count; source++) {
            uint32_t offset = m.offset[source];
            if (source == own) continue;
            place += before_in(tile.keys + offset, m.offset[source + 1] - offset, key, source < own);
        }
        m.order[place] = static_cast<uint16_t>(item);
    }
    __syncthreads();

    // The newest entry of a key says whether it is live, the oldest whether it shadows anything.
    uint16_t entries[ITEMS];
#pragma unroll
    for (int i = 0; i < ITEMS; i++) {
        uint32_t place = threadIdx.x * ITEMS + i;
        entries[i] = 0;
        if (place >= here) continue;
        uint16_t newest = m.order[place], oldest = newest;
        Key key = tile.keys[newest];
        if (place > 0 && tile.keys[m.order[place - 1]] == key) continue;
        while (++place < here && tile.keys[m.order[place]] == key) oldest = m.order[place];
        int by = m.source[newest], over = m.source[oldest];
        bool live = sources.at[by].live(m.begin[by] + newest - m.offset[by]);
        bool shadow = !live_only && sources.at[over].shadow(m.begin[over] + oldest - m.offset[over]);
        if (live || shadow) {
            entries[i] = newest | entry::KEEP | (live ? entry::LIVE : 0) | (shadow ? entry::SHADOW : 0);
        }
    }
    emit(tile, entries, chain, out, [&](unsigned item) {
        int source = m.source[item];
        const Source<Key, Value>& from = sources.at[source];
        if (from.kind == Kind::Deletes) return zero<Value>();
        return value_at(from.values, m.begin[source] + item - m.offset[source]);
    });
}

/// Scratch memory of a merge: the chain of tiles, then their cuts.
struct Scratch {
    uint64_t tiles, cuts_at, bytes;

    Scratch(int sources, uint64_t bound) : tiles(tiles_of(bound)), cuts_at((Chain::bytes_for(tiles) + 31) / 32 * 32) {
        bytes = cuts_at + (tiles + 1) * sources * sizeof(uint64_t);
    }
};

}  // namespace gpulsm

using namespace gpulsm;

/// Bytes of scratch memory that `gpulsm_merge` wants.
extern "C" uint64_t gpulsm_merge_scratch(int sources, uint64_t bound) { return Scratch(sources, bound).bytes; }

/// Merges sources of at least one and at most `bound` entries; those that end up dead, or shadowing
/// nothing and dead, are dropped.
GPULSM_EXPORT gpulsm_merge(int key_width, int value_width, const Sources<char, char>* sources, uint64_t bound,
                           bool live_only, char* memory, const Output<char, char>* out, cudaStream_t stream) {
    Scratch scratch(sources->count, bound);
    uint64_t tiles = scratch.tiles;
    cudaError_t zeroed = cudaMemsetAsync(memory, 0, Chain::zeroed_for(tiles), stream);
    if (zeroed != cudaSuccess) return zeroed;
    uint64_t* cuts = reinterpret_cast<uint64_t*>(memory + scratch.cuts_at);
    return with_pair(key_width, value_width, [&](auto key, auto value) -> int {
        using Key = typename decltype(key)::type;
        using Value = typename decltype(value)::type;
        const auto& typed_sources = reinterpret_cast<const Sources<Key, Value>&>(*sources);
        const auto& typed_out = reinterpret_cast<const Output<Key, Value>&>(*out);
        Chain chain(memory, tiles);
        unsigned blocks = blocks_for((tiles + 1) * 32, THREADS);
        auto cut = sources->count <= 32 ? cut_kernel<Key, Value, 1> : cut_kernel<Key, Value, 3>;
        cut<<<blocks, THREADS, 0, stream>>>(typed_sources, tiles, cuts);
        merge_kernel<<<static_cast<unsigned>(tiles), THREADS, 0, stream>>>(typed_sources, cuts, live_only, chain,
                                                                          typed_out);
        finish_kernel<<<1, 32, 0, stream>>>(chain, tiles, typed_out);
        return cudaGetLastError();
    });
}
