// Combines the values of ranges: windows and sizes are known from `count.cu`. Most ranges are combined by a few
// threads, a warp or a block each; very long ones are divided among blocks. A range that has as many entries as pairs
// is *flat*: every entry is live and the only one of its key, so that runs need not be merged.
#include "dispatch.cuh"
#include "query/aggregate_output.cuh"
#include "query/range_cuts.cuh"
#include "query/range_merge.cuh"
#include "query/range_short.cuh"

namespace gpulsm {

/// Combines `len` values, of which this thread takes every `stride`-th from `first` on.
template <class Value>
__device__ __forceinline__ void add_values(Folded<Value>& folded, const Fold& fold, const Value* values, uint64_t len,
                                           uint32_t first, uint32_t stride) {
    // Load several values at a time.
    constexpr int MANY = 4;
    uint64_t i = first;
    for (; i + (MANY - 1) * stride < len; i += MANY * stride) {
        Value some[MANY];
#pragma unroll
        for (int j = 0; j < MANY; j++) some[j] = value_at(values, i + j * stride);
#pragma unroll
        for (int j = 0; j < MANY; j++) folded.add(fold, some[j]);
    }
    for (; i < len; i += stride) folded.add(fold, value_at(values, i));
}

/// Combines ranges over one run, whose entries are all live, by `FOLD_LANES` neighbours each; longer ones by a warp.
template <class Key, class Value>
__global__ void __launch_bounds__(THREADS)
fold_run_kernel(const __grid_constant__ RunView<Key, Value> run,
                const __grid_constant__ AggregateOutput<Key, Value> ranges) {
    uint64_t thread = blockIdx.x * static_cast<uint64_t>(THREADS) + threadIdx.x, range = thread / FOLD_LANES;
    bool is_first = thread % FOLD_LANES == 0 && range < ranges.len;
    uint64_t len = range < ranges.len ? __ldg(ranges.counts + range) : 0;
    uint64_t start = len > 0 ? ranges.window(range, 0).x : 0;
    Folded<Value> folded(ranges.fold);
    bool is_short = len <= FOLD_SHORT;
    if (is_short) add_values(folded, ranges.fold, run.values + start, len, thread % FOLD_LANES, FOLD_LANES);
    folded.template add_lanes<FOLD_LANES>(ranges.fold);
    if (is_first && is_short) folded.write(ranges.fold, ranges.answers, range, len == 0);
    bool is_huge = len > HUGE_PIECE;
    if (is_first && is_huge) ranges.add_huge(range, len);
    for (unsigned longs = __ballot_sync(~0u, is_first && !is_short && !is_huge); longs != 0; longs &= longs - 1) {
        int owner = __ffs(longs) - 1;
        uint64_t of = __shfl_sync(~0u, range, owner), from = __shfl_sync(~0u, start, owner);
        uint64_t many = __shfl_sync(~0u, len, owner);
        Folded<Value> all(ranges.fold);
        add_values(all, ranges.fold, run.values + from, many, threadIdx.x % 32, 32);
        all.template add_lanes<32>(ranges.fold);
        if (threadIdx.x % 32 == 0) all.write(ranges.fold, ranges.answers, of, false);
    }
}

/// Combines pieces of huge ranges over one run.
template <class Key, class Value>
__global__ void __launch_bounds__(THREADS)
fold_run_pieces_kernel(const __grid_constant__ RunView<Key, Value> run,
                       const __grid_constant__ AggregateOutput<Key, Value> ranges) {
    __shared__ uint64_t of_warps[WARPS][MAX_ELEMENTS<Value>];
    for (uint64_t item = blockIdx.x, items = ranges.items(); item < items; item += gridDim.x) {
        HugeRange& huge = ranges.range_of(item);
        uint64_t pairs = __ldg(ranges.counts + huge.range), piece = item - huge.first_item;
        uint64_t begin = pairs * piece / huge.pieces, end = pairs * (piece + 1) / huge.pieces;
        const Value* values = run.values + ranges.window(huge.range, 0).x + begin;
        Folded<Value> folded(ranges.fold);
        add_values(folded, ranges.fold, values, end - begin, threadIdx.x, THREADS);
        folded.template add_block<THREADS>(ranges.fold, of_warps);
        if (threadIdx.x == 0) ranges.finish_piece(huge, folded);
    }
}

/// The merge of a range by a block.
template <bool COMBINES, class Key, class Value>
using FoldMerge = RangeMerge<COMBINES, RANGE_THREADS, range_items(sizeof(Key) + sizeof(Value)), Key, Value>;

/// Combines short ranges over several runs, by one thread each, and lists the others: as flat ones; as long ones if their
/// entries fit in a tile; otherwise as huge ones, some in one piece. With `COMBINES` the values of equal keys in different
/// runs are combined first, by the dictionary's rule, and no range is listed as a long one: that saves kernels.
template <bool COMBINES, int RUNS, class Key, class Value>
__global__ void __launch_bounds__(THREADS)
fold_short_kernel(const __grid_constant__ View<Key, Value> view,
                  const __grid_constant__ AggregateOutput<Key, Value> ranges) {
    uint64_t range = blockIdx.x * static_cast<uint64_t>(THREADS) + threadIdx.x;
    if (range >= ranges.len) return;
    uint64_t pairs = __ldg(ranges.counts + range);
    Folded<Value> folded(ranges.fold);
    if (pairs == 0) return folded.write(ranges.fold, ranges.answers, range, true);
    ThreadMerge<COMBINES, RUNS, Key, Value> merge;
    uint64_t entries = merge.find(view, ranges, range);
    bool is_mostly_dead = entries > 4 * pairs + FEW_STALE, is_flat = entries == pairs;
    if (is_flat && entries > FOLD_ENTRIES && entries <= HUGE_PIECE) return ranges.add_flat(range);
    if (entries > FOLD_ENTRIES) {
        bool fits = entries <= FoldMerge<COMBINES, Key, Value>::capacity(static_cast<int>(view.count));
        return COMBINES || is_mostly_dead || !fits ? ranges.add_huge(range, pairs) : ranges.add_long(range);
    }
    if (is_flat) {
#pragma unroll merge.UNROLL
        for (int run = 0; run < merge.runs(view); run++) {
            for (uint64_t at = merge.position[run]; at < merge.stop[run]; at++) {
                folded.add(ranges.fold, value_at(view.runs[run].values, at));
            }
        }
        return folded.write(ranges.fold, ranges.answers, range, false);
    }
    merge.begin(view);
    for (Key key; pairs > 0 && merge.next_key(view, key);) {
        Value value;
        if (!merge.take(view, key, true, value)) continue;
        folded.add(ranges.fold, value);
        pairs--;
    }
    folded.write(ranges.fold, ranges.answers, range, false);
}

/// Combines flat ranges over several runs, by a warp each.
template <class Key, class Value>
__global__ void __launch_bounds__(THREADS, FLAT_BLOCKS)
fold_flat_kernel(const __grid_constant__ View<Key, Value> view,
                 const __grid_constant__ AggregateOutput<Key, Value> ranges) {
    uint64_t warp = (blockIdx.x * static_cast<uint64_t>(THREADS) + threadIdx.x) / 32;
    for (uint64_t at = warp, flats = ranges.lists().flats; at < flats; at += gridDim.x * static_cast<uint64_t>(WARPS)) {
        uint64_t range = ranges.flat(at);
        Folded<Value> folded(ranges.fold);
        int lane = threadIdx.x % 32, count = static_cast<int>(view.count);
        for (int first = 0; first < count; first += 32) {
            // Each lane loads the window of a run, so that all are loaded at once.
            ulonglong2 own = first + lane < count ? ranges.window(range, first + lane) : make_ulonglong2(0, 0);
            for (int run = first; run < min(first + 32, count); run++) {
                uint64_t start = __shfl_sync(~0u, own.x, run - first), end = __shfl_sync(~0u, own.y, run - first);
                add_values(folded, ranges.fold, view.runs[run].values + start, end - start, lane, 32);
            }
        }
        folded.template add_lanes<32>(ranges.fold);
        if (threadIdx.x % 32 == 0) folded.write(ranges.fold, ranges.answers, range, false);
    }
}

/// Combines the values of merged entries.
template <class Key, class Value>
struct ValueFolder {
    const Fold& fold;
    Folded<Value> folded;

    /// Takes the live values of a tile that this thread has merged. For the whole block.
    template <bool COMBINES, int BLOCK, int PER_THREAD>
    __device__ __forceinline__ uint32_t take(RangeMerge<COMBINES, BLOCK, PER_THREAD, Key, Value>& merge,
                                             const ThreadEntries<PER_THREAD, Key>& mine) {
        // Entries go through shared memory, so that the loop over those that are live need not be unrolled.
        TileEntry* own = merge.tile.entries + threadIdx.x * PER_THREAD;
        __syncthreads();  // Every thread has read what it merged.
#pragma unroll
        for (int i = 0; i < PER_THREAD; i++) own[i] = mine.entries[i];
#pragma unroll 1
        for (unsigned rest = mine.lives; rest != 0; rest &= rest - 1) {
            folded.add(fold, merge.tile.values[own[__ffs(rest) - 1].number()]);
        }
        int taken = sum_lanes(__popc(mine.lives), 32);
        if (threadIdx.x % 32 == 0) atomicAdd(reinterpret_cast<unsigned long long*>(&merge.place), taken);
        return 0;  // The place has been advanced.
    }
};

/// A block that combines ranges over several runs, in shared memory.
template <bool COMBINES, class Key, class Value>
struct FoldBlock {
    FoldMerge<COMBINES, Key, Value> merge;
    uint64_t of_warps[RANGE_THREADS / 32][MAX_ELEMENTS<Value>];

    /// Begins a whole range.
    __device__ void begin(const View<Key, Value>& view, const AggregateOutput<Key, Value>& ranges, uint64_t range) {
        if (threadIdx.x < view.count) {
            ulonglong2 window = ranges.window(range, threadIdx.x);
            merge.start[threadIdx.x] = window.x;
            merge.end[threadIdx.x] = window.y;
        }
        if (threadIdx.x == 0) merge.place = 0, merge.last = __ldg(ranges.counts + range);
        __syncthreads();
    }

    /// Returns whether what was begun is flat.
    __device__ bool is_flat(const View<Key, Value>& view) const {
        return merge.left(static_cast<int>(view.count)) == merge.last;
    }

    /// Combines a piece of the flat range that was begun, in the first thread: its share of every run.
    __device__ Folded<Value> fold_flat(const View<Key, Value>& view, const AggregateOutput<Key, Value>& ranges,
                                       const HugeRange& huge, uint64_t piece) {
        Folded<Value> folded(ranges.fold);
        for (int run = 0; run < view.count; run++) {
            uint64_t entries = merge.end[run] - merge.start[run];
            uint64_t begin = entries * piece / huge.pieces, end = entries * (piece + 1) / huge.pieces;
            const Value* values = view.runs[run].values + merge.start[run] + begin;
            add_values(folded, ranges.fold, values, end - begin, threadIdx.x, RANGE_THREADS);
        }
        folded.template add_block<RANGE_THREADS>(ranges.fold, of_warps);
        return folded;
    }

    /// Narrows the range that was begun to a piece. Its ends are cut by two warps: a cut is the same whoever makes it,
    /// since each begins anew.
    __device__ void narrow(const View<Key, Value>& view, const AggregateOutput<Key, Value>& ranges, const HugeRange& huge,
                           uint64_t piece, RangeCuts<Key, Value> (&cuts)[2]) {
        int warp = threadIdx.x / 32, lane = threadIdx.x % 32, count = static_cast<int>(view.count);
        uint64_t pairs = merge.last, number = piece + warp;
        __syncthreads();
        if (warp < 2 && number > 0 && number < huge.pieces) {
            RangeCuts<Key, Value>& own = cuts[warp];
            int64_t first = own.begin(view, ranges, huge.range), goal = first + pairs * number / huge.pieces;
            int64_t before = own.cut(view, ranges, huge.range, goal, first, first + pairs);
            uint64_t* to = warp == 0 ? merge.start : merge.end;
            for (int run = lane; run < count; run += 32) to[run] = own.windows.start[run];
            if (lane == 0) (warp == 0 ? merge.place : merge.last) = before - first;
        }
        __syncthreads();
    }

    /// Combines what was begun, in the first thread. With `FITS` all entries fit in a tile; otherwise long dead stretches
    /// are skipped.
    template <bool FITS>
    __device__ Folded<Value> fold(const View<Key, Value>& view, const AggregateOutput<Key, Value>& ranges) {
        ValueFolder<Key, Value> folder{ranges.fold, Folded<Value>(ranges.fold)};
        if (FITS) merge.template step<true>(view, folder);
        else if (merge.place < merge.last) merge.merge_between_dead(view, folder, ranges.lists().dead);
        __syncthreads();
        folder.folded.template add_block<RANGE_THREADS>(ranges.fold, of_warps);
        return folder.folded;
    }
};

/// Combines the ranges listed as long, one block each.
template <class Key, class Value>
__global__ void __launch_bounds__(RANGE_THREADS, range_blocks(sizeof(Key), sizeof(Value)))
fold_long_kernel(const __grid_constant__ View<Key, Value> view,
                 const __grid_constant__ AggregateOutput<Key, Value> ranges) {
    __shared__ FoldBlock<false, Key, Value> block;
    for (uint64_t at = blockIdx.x, longs = ranges.lists().longs; at < longs; at += gridDim.x) {
        uint64_t range = ranges.longs()[at];
        block.begin(view, ranges, range);
        Folded<Value> folded = block.template fold<true>(view, ranges);
        if (threadIdx.x == 0) folded.write(ranges.fold, ranges.answers, range, false);
    }
}

/// Combines pieces of huge ranges over several runs, and ranges that are mostly dead.
template <bool COMBINES, class Key, class Value>
__global__ void __launch_bounds__(RANGE_THREADS, DEAD_BLOCKS)
fold_pieces_kernel(const __grid_constant__ View<Key, Value> view,
                   const __grid_constant__ AggregateOutput<Key, Value> ranges) {
    __shared__ FoldBlock<COMBINES, Key, Value> block;
    __shared__ RangeCuts<Key, Value> cuts[2];
    for (uint64_t item = blockIdx.x, items = ranges.items(); item < items; item += gridDim.x) {
        HugeRange& huge = ranges.range_of(item);
        uint64_t piece = item - huge.first_item;
        block.begin(view, ranges, huge.range);
        bool is_flat = block.is_flat(view);
        if (!is_flat) block.narrow(view, ranges, huge, piece, cuts);
        Folded<Value> folded = is_flat ? block.fold_flat(view, ranges, huge, piece) : block.template fold<false>(view, ranges);
        if (threadIdx.x == 0) ranges.finish_piece(huge, folded);
    }
}

/// Combines ranges over several runs.
template <bool COMBINES, class Key, class Value>
void fold_merged(const View<Key, Value>& view, const AggregateOutput<Key, Value>& ranges, cudaStream_t stream) {
    auto short_kernel = fold_short_kernel<COMBINES, MAX_RUNS, Key, Value>;
    if constexpr (!COMBINES) {
        if (view.count <= 8) short_kernel = fold_short_kernel<false, 8, Key, Value>;
    }
    short_kernel<<<blocks_for(ranges.len, THREADS), THREADS, 0, stream>>>(view, ranges);
    // As many blocks as can run at once: how many ranges are listed, only the device knows.
    unsigned blocks = blocks_at_once(~0u, FLAT_BLOCKS);
    fold_flat_kernel<<<blocks, THREADS, 0, stream>>>(view, ranges);
    if constexpr (!COMBINES) {
        blocks = blocks_at_once(~0u, range_blocks(sizeof(Key), sizeof(Value)));
        fold_long_kernel<<<blocks, RANGE_THREADS, 0, stream>>>(view, ranges);
    }
    blocks = blocks_at_once(~0u, DEAD_BLOCKS);
    fold_pieces_kernel<COMBINES><<<blocks, RANGE_THREADS, 0, stream>>>(view, ranges);
}

}  // namespace gpulsm

using namespace gpulsm;

/// Returns how many bytes of memory the blocks share that combine `len` ranges, and how many of them must be zeroed.
extern "C" uint64_t gpulsm_aggregate_bytes(uint64_t len, uint64_t* zeros) {
    using Lists = AggregateLists<WideKey>;  // The largest.
    *zeros = offsetof(Lists, dead) + offsetof(DeadStretches<WideKey>, first);
    return sizeof(Lists) + len * (sizeof(uint64_t) + sizeof(HugeRange));
}

/// Combines the values of every range.
GPULSM_EXPORT gpulsm_aggregate(int key_width, int value_width, const View<char, char>* view,
                               const AggregateOutput<char, char>* output, cudaStream_t stream) {
    return with_pair(key_width, value_width, [&](auto key, auto value) -> int {
        using Key = typename decltype(key)::type;
        using Value = typename decltype(value)::type;
        if constexpr (sizeof(Value) == 1) {
            return cudaErrorInvalidValue;  // A set has no values.
        } else {
            auto runs = typed<Key, Value>(*view);
            const auto& ranges = reinterpret_cast<const AggregateOutput<Key, Value>&>(*output);
            if (runs.count > 1) {
                runs.combiner.combines() ? fold_merged<true>(runs, ranges, stream)
                                         : fold_merged<false>(runs, ranges, stream);
            } else {
                unsigned blocks = blocks_for(ranges.len * FOLD_LANES, THREADS);
                fold_run_kernel<<<blocks, THREADS, 0, stream>>>(runs.runs[0], ranges);
                blocks = blocks_at_once(~0u, FOLD_BLOCKS);
                fold_run_pieces_kernel<<<blocks, THREADS, 0, stream>>>(runs.runs[0], ranges);
            }
            return cudaGetLastError();
        }
    });
}
