// Merges sorted sources into one run in one pass. Of the entries of one key the newest is kept, with the shadow bit
// of the oldest; in a dictionary that combines values, with all values that count.
#include "dispatch.cuh"
#include "merge/prepare.cuh"
#include "merge/rounds.cuh"

namespace gpulsm {

/// Writes the marks of the first `kept` entries of a tile, which go to position `base` and the ones after it. A
/// warp writes one word of each plane at a time; only the first and the last word are shared with other tiles.
template <bool COMBINES>
__device__ __forceinline__ void write_marks(const TileEntry* entries, uint32_t kept, uint64_t base, Sector* marks) {
    unsigned lane = threadIdx.x % 32;
    for (uint64_t word = base / 32 + threadIdx.x / 32; word * 32 < base + kept; word += WARPS) {
        int64_t from = static_cast<int64_t>(word * 32 + lane) - static_cast<int64_t>(base);
        bool is_here = from >= 0 && from < kept;
        TileEntry entry = is_here ? entries[from] : TileEntry{0};
        unsigned present = __ballot_sync(~0u, is_here);
        // A restart is stored as neither live nor a shadow.
        if (COMBINES && entry.mark() == Mark::RESTART) entry = TileEntry{0};
        unsigned lives = __ballot_sync(~0u, entry.is_live()), shadows = __ballot_sync(~0u, entry.is_shadow());
        if (lane > 1) continue;
        Sector& sector = marks[static_cast<uint32_t>(word) / SECTOR_WORDS];
        uint32_t* to = (lane == 0 ? sector.live : sector.shadow) + static_cast<uint32_t>(word) % SECTOR_WORDS;
        unsigned bits = lane == 0 ? lives : shadows;
        if (present == ~0u) *to = bits;
        else atomicOr(to, bits);
    }
}

/// Writes the sum before the sector that begins among this thread's entries, if one does. `ahead` are the totals of all
/// entries before them.
template <int PER_THREAD, class Key>
__device__ __forceinline__ void write_sum(const ThreadEntries<PER_THREAD, Key>& mine, const Totals<Key>& ahead,
                                          Sector* marks) {
    uint64_t start = sector_of(ahead.kept) * static_cast<uint64_t>(SECTOR);
    if (start < ahead.kept) start += SECTOR;
    uint64_t skipped = start - ahead.kept;
    if (skipped < __popc(mine.keep())) marks[sector_of(start)].sum = ahead.sum + mine.sum_of_first(skipped);
}

/// Writes `kept` entries from position `base` on, striped over the threads, with their fences and, with marks, their
/// bits in the filter. Neighbouring threads write neighbouring positions.
template <bool MARKS, int PER_THREAD, class Key, class Value>
__device__ __forceinline__ void write_entries(const Key (&keys)[PER_THREAD], const Value (&values)[PER_THREAD],
                                              uint32_t kept, uint64_t base, const RunOutput<Key, Value>& out) {
    uint64_t position = base + threadIdx.x;
    Key* out_keys = out.keys + position;
    Value* out_values = out.values + (sizeof(Value) > 1 ? position : 0);
    static_assert(THREADS % (NODE * NODE) == 0, "a thread writes all fences or none");
    bool ends_node = out.inner != nullptr && position % NODE == NODE - 1;
    bool ends_nodes = ends_node && position % (NODE * NODE) == NODE * NODE - 1;
#pragma unroll
    for (int i = 0; i < PER_THREAD; i++) {
        unsigned to = i * THREADS;
        if (to + threadIdx.x < kept) {
            out_keys[to] = keys[i];
            if constexpr (sizeof(Value) > 1) out_values[to] = values[i];
            if (ends_node) out.inner[(position + to) / NODE] = keys[i];
            if (ends_nodes) out.outer[(position + to) / (NODE * NODE)] = keys[i];
            if (MARKS && out.filter != nullptr) add_to(out.filter, out.filter_len, keys[i]);
        }
    }
}

/// Where the tiles of a merge begin: what was cut before, or, if that is null, after how many entries each tile begins.
struct TileStarts {
    const uint64_t* cuts;
    uint64_t step;
};

/// Returns whether a kernel can cut its tiles itself: those of short merges, which take as long to launch as to execute.
template <bool COMBINES, bool MARKS, int PER_THREAD>
constexpr bool CAN_CUT = !COMBINES && !MARKS && PER_THREAD == FEW_ITEMS;

/// Merges a tile. Without marks (the oldest run, or one whose marks are computed later) only live entries are kept.
/// If values combine, whether there are marks is known only at run time: that saves kernels.
template <bool COMBINES, bool MARKS, int PER_THREAD, class Key, class Value>
__global__ void __launch_bounds__(THREADS, merge_blocks(COMBINES, MARKS, PER_THREAD, sizeof(Key) + sizeof(Value)))
merge_kernel(const __grid_constant__ Sources<Key, Value> sources, TileStarts starts, Chain<Key> chain,
             RunOutput<Key, Value> out, Combiner combiner) {
    static_assert(MARKS || !COMBINES);
    wait_for_predecessor();
    constexpr bool CUTS = CAN_CUT<COMBINES, MARKS, PER_THREAD>;
    // Cutting and merging take turns.
    __shared__ union {
        MergeTile<MARKS, THREADS, PER_THREAD, Key, Value> tile;
        Windows<Key> windows[CUTS ? 2 : 1];
    } shared;
    auto& tile = shared.tile;
    uint64_t index = chain.tile();
    int count = sources.count;

    // Find the part of every source, newest first.
    uint64_t begin = 0, end = 0;
    if (CUTS && starts.cuts == nullptr) {
        if constexpr (CUTS) {
            // One half of the block cuts where the tile begins, the other one where it ends.
            int half = threadIdx.x / (THREADS / 2);
            const auto& keys = reinterpret_cast<const Sources<Key, Nothing>&>(sources);
            auto& windows = shared.windows[half];
            cut<THREADS / 2>(keys, (index + half) * starts.step, windows, windows.past);
            __syncthreads();
            if (threadIdx.x < count) {
                begin = shared.windows[0].past[threadIdx.x];
                end = shared.windows[1].past[threadIdx.x];
            }
            __syncthreads();
        }
    } else if (threadIdx.x < count) {
        const uint64_t* cut = starts.cuts + index * count + threadIdx.x;
        begin = cut[0];
        end = cut[count];
    }
    if (threadIdx.x < count) {
        tile.parts[threadIdx.x].source = sources[threadIdx.x];
        tile.parts[threadIdx.x].ahead = begin;
        tile.offset[threadIdx.x + 1] = static_cast<uint32_t>(end - begin);
    }
    __syncthreads();

    // Merge them, and compact the entries that are kept.
    load<COMBINES>(tile, count);
    auto merged = [&] {
        if constexpr (COMBINES) return merge_combining(tile, count, combiner);
        else return merge(tile, count);
    };
    ThreadEntries<PER_THREAD, Key> mine = merged();
    bool has_marks = MARKS && (!COMBINES || out.marks != nullptr);
    if (!has_marks) mine.shadows = 0;
    Counts<MARKS> before, all;
    pack(tile, mine, before, all);

    // While the first warp waits for the number of entries kept before, the others load what they will write.
    uint32_t kept = static_cast<uint32_t>(totals_of<MARKS, Key>(all).kept);
    if (threadIdx.x < 32) {
        Totals<Key> own = totals_of<MARKS, Key>(all);
        own.last = tile.keys[kept == 0 ? 0 : kept - 1];
        Totals<Key> earlier = chain.look_back(own);
        if (threadIdx.x == 0) tile.before = earlier;
        if (chain.is_last()) finish(earlier + own, out);
    }
    Key keys[PER_THREAD];
    Value values[PER_THREAD];
#pragma unroll
    for (int i = 0; i < PER_THREAD; i++) {
        uint32_t from = i * THREADS + threadIdx.x;
        if (from >= kept) continue;
        keys[i] = tile.keys[from];
        values[i] = tile.values[tile.entries[from].number()];
    }
    __syncthreads();

    // Write everything.
    write_entries<MARKS>(keys, values, kept, tile.before.kept, out);
    if constexpr (MARKS) {
        if (!has_marks) return;
        write_marks<COMBINES>(tile.entries, kept, tile.before.kept, out.marks);
        write_sum(mine, tile.before + unpack_counts<Key>(before), out.marks);
    }
}

/// The tiles of a merge of at most `bound` entries.
struct MergeTiling {
    bool few;
    uint64_t step, tiles;

    MergeTiling(int key_width, int value_width, int sources, uint64_t bound) : few(bound <= FEW_ENTRIES) {
        int items = few ? FEW_ITEMS : merge_items(key_width, value_width);
        int pairs = (sources + 1) / 2;  // The last thread of each pair may have fewer entries than the others.
        step = THREADS * items - SLACK - pairs * items;
        tiles = (bound + step - 1) / step;
    }
};

}  // namespace gpulsm

using namespace gpulsm;

/// Returns the bytes of a merge's chain, with which its scratch begins, if its tiles may be cut by the kernel that merges
/// them (`CutBy::Tiles`), and 0 if not. There must be no marks, and no values that combine.
extern "C" uint64_t gpulsm_merge_chain(int key_width, int value_width, int sources, uint64_t bound) {
    MergeTiling tiling(key_width, value_width, sources, bound);
    return tiling.few && sources <= MAX_CUT_SOURCES ? chain_bytes(key_width, tiling.tiles) : 0;
}

/// Returns the bytes of scratch memory that `gpulsm_merge` needs: its chain and its cuts.
extern "C" uint64_t gpulsm_merge_scratch(int key_width, int value_width, int sources, uint64_t bound) {
    uint64_t tiles = MergeTiling(key_width, value_width, sources, bound).tiles;
    return chain_bytes(key_width, tiles) + (tiles + 1) * sources * sizeof(uint64_t);
}

/// Returns the number of tiles of a merge.
extern "C" uint64_t gpulsm_merge_tiles(int key_width, int value_width, int sources, uint64_t bound) {
    return MergeTiling(key_width, value_width, sources, bound).tiles;
}

/// Cuts all tiles of a merge that finds no shadows, so that `gpulsm_merge` need not, and prepares its scratch: where the
/// merge overwrites its sources as it goes, no cut can be found later.
GPULSM_EXPORT gpulsm_merge_cut(int key_width, int value_width, const Sources<char, char>* sources, uint64_t bound,
                               char* scratch, cudaStream_t stream) {
    MergeTiling tiling(key_width, value_width, sources->count, bound);
    return with_key(key_width, [&](auto key) -> int {
        using Key = typename decltype(key)::type;
        uint64_t bytes_of_chain = chain_bytes(key_width, tiling.tiles);
        auto* cuts = reinterpret_cast<uint64_t*>(scratch + bytes_of_chain);
        TileCuts to_cut = {tiling.step, 0, tiling.tiles, cuts,
                           {Zeros(scratch, bytes_of_chain), Zeros(nullptr, 0), Zeros(nullptr, 0)}};
        ShadowQueries<Key> none[MAX_PARTS] = {};
        View<Key, Nothing> no_runs = {};
        return prepare(reinterpret_cast<const Sources<Key, Nothing>&>(*sources), to_cut, none, no_runs, Filters{}, stream);
    });
}

/// Merges sources of at least one and at most `bound` entries in total, and drops entries that are neither live nor
/// shadows. First looks up which keys of the batch, in up to `MAX_PARTS` parts that are sources as well, are live in the
/// older runs; filters save searches. With marks it can also build the filter of the new run.
///
/// Merges `tiles` tiles from tile `first`, or as many as there are; earlier calls with the same arguments merged
/// the tiles before. The run is complete after the last tile. If the tiles are cut (`gpulsm_merge_cut`), there is no
/// batch, and the caller has zeroed the marks. If they cut themselves, the caller has zeroed the chain.
GPULSM_EXPORT gpulsm_merge(int key_width, int value_width, const Sources<char, char>* sources, uint64_t bound,
                           uint64_t first, uint64_t tiles, CutBy cut_by, const ShadowQueries<char>* queries,
                           const View<char, char>* older, const Filters* filters, char* scratch,
                           const RunOutput<char, char>* out, const Combiner* combiner, cudaStream_t stream) {
    MergeTiling tiling(key_width, value_width, sources->count, bound);
    tiles = tiles < tiling.tiles - first ? tiles : tiling.tiles - first;
    bool begins = first == 0;
    return with_pair(key_width, value_width, [&](auto key, auto value) -> int {
        using Key = typename decltype(key)::type;
        using Value = typename decltype(value)::type;
        uint64_t bytes_of_chain = chain_bytes(key_width, tiling.tiles);
        auto* cuts = reinterpret_cast<uint64_t*>(scratch + bytes_of_chain);
        TileCuts to_cut = {tiling.step, first, tiles, cuts,
                           {Zeros(out->marks, begins ? out->sectors * sizeof(Sector) : 0),
                            Zeros(out->filter, begins ? out->filter_len * sizeof(uint64_t) : 0),
                            Zeros(scratch, begins ? bytes_of_chain : 0)}};
        if (cut_by == CutBy::Kernel) {
            int error = prepare(reinterpret_cast<const Sources<Key, Nothing>&>(*sources), to_cut,
                                reinterpret_cast<const ShadowQueries<Key>*>(queries),
                                typed<Key, Nothing>(*older), *filters, stream);
            if (error != cudaSuccess) return error;
        }
        constexpr int MANY = merge_items(sizeof(Key), std::is_empty_v<Value> ? 0 : sizeof(Value));
        auto choose = [&](auto combines, auto marks) {
            return tiling.few ? merge_kernel<combines, marks, FEW_ITEMS, Key, Value>
                              : merge_kernel<combines, marks, MANY, Key, Value>;
        };
        std::true_type yes;
        std::false_type no;
        auto merge = out->marks != nullptr ? choose(no, yes) : choose(no, no);
        if constexpr (sizeof(Value) > 1) {
            if (combiner->combines()) merge = choose(yes, yes);
        }
        TileStarts starts = {cut_by == CutBy::Tiles ? nullptr : cuts, tiling.step};
        return launch_early(merge, tiles, THREADS, 0, stream, reinterpret_cast<const Sources<Key, Value>&>(*sources), starts,
                            Chain<Key>(scratch, tiling.tiles, first),
                            reinterpret_cast<const RunOutput<Key, Value>&>(*out), *combiner);
    });
}
