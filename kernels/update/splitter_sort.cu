// Sorts a batch of medium length in two kernels, and keeps the last of equal keys. CUB's sort takes a dozen, whatever the
// length.
//
// 1 cut:  splitters are keys at equal distances in the longest run, if they divide a sample of the batch well, and otherwise
//         in a larger sample. Every block divides a tile of the batch at them, so that the keys of
//         a bucket lie side by side in each tile, in the order they came.
// 2 sort: every block collects a bucket from all tiles, sorts it in shared memory, and writes what it keeps behind what
//         the buckets before it keep.
//
// Keys that equal a splitter are apart from those between two: if one key makes up much of the batch, the sample has it
// often, and of its keys only the last one is looked at. A bucket that is too long for shared memory nevertheless is
// sorted in windows, one after the other.
#include <algorithm>

#include <cub/block/block_scan.cuh>

#include "dispatch.cuh"
#include "run/emit.cuh"
#include "tuning.cuh"
#include "update/block_sort.cuh"

namespace gpulsm {

/// How a batch is cut: into tiles of `tile` keys, and two to the power of `bits` buckets.
struct Cut {
    int bits;
    uint32_t tile;

    __host__ __device__ constexpr int buckets() const { return 1 << bits; }
    /// Keys between two splitters are in parts of even numbers, those equal to one in parts of odd ones.
    __host__ __device__ constexpr int parts() const { return 2 << bits; }
    /// Offsets of the parts of a tile: one more for the end, and one for alignment.
    __host__ __device__ constexpr int offsets() const { return parts() + 2; }
};

/// Returns the length of the longest batch that is cut like one of `len` keys.
__host__ __device__ constexpr uint64_t longest_alike(uint64_t len) {
    return len <= FEW_CUT ? FEW_CUT : len <= 2 * FEW_CUT ? 2 * FEW_CUT : 4 * FEW_CUT;
}

/// Returns how a batch is cut: into at most `CUT_TILES` tiles, and into more buckets where few would not fit.
template <class Key>
__host__ __device__ constexpr Cut cut_of(uint64_t len) {
    uint64_t longest = longest_alike(len);
    bool few = longest <= (sizeof(Key) <= 8 ? 2 : 1) * FEW_CUT;
    return {few ? FEW_BUCKET_BITS : FEW_BUCKET_BITS + 1, static_cast<uint32_t>(longest / CUT_TILES)};
}

/// Memory between the two kernels.
template <class Key>
struct CutBatch {
    Cut cut;
    Key* keys;          // of all tiles, part after part
    uint16_t* places;   // of these keys in their tile of the batch
    uint16_t* offsets;  // of the parts of each tile
    Key* splitters;     // the greatest key of each bucket
    uint32_t* kept;     // of each bucket, how many keys it keeps, with `KNOWN` once that is known…
    Key* last;          // …and the last of them, if there are any
    uint32_t tiles;
};

/// Says that a number of kept keys is known.
constexpr uint32_t KNOWN = 1u << 31;

/// Mixes the bits of a number.
__device__ __forceinline__ uint32_t mixed(uint32_t x) {
    x = (x ^ x >> 16) * 0x7feb352d;
    x = (x ^ x >> 15) * 0x846ca68b;
    return x ^ x >> 16;
}

/// What a block that cuts a tile has in shared memory.
template <class Key, uint64_t LONGEST>
struct CutShared {
    static constexpr Cut CUT = cut_of<Key>(LONGEST);
    static constexpr int BUCKETS = CUT.buckets(), PARTS = CUT.parts(), TILE = CUT.tile;
    static constexpr int SAMPLES = SAMPLES_PER_BUCKET<Key> * BUCKETS;
    using Sort = BlockSort<Key, SORT_THREADS, SAMPLES / SORT_THREADS>;
    using Rank = cub::BlockRadixRankMatchEarlyCounts<SORT_THREADS, CUT.bits + 1, false>;

    Key splitters[BUCKETS];
    union {
        uint32_t counts[BUCKETS];
        struct {
            Key keys[SAMPLES];
            typename Sort::Shared sort;
        } sample;
        typename Rank::TempStorage rank;
        struct {
            Key keys[TILE];
            uint16_t places[TILE];
        } tile;
    };
};

/// A run whose keys are likely spread as those of the batch; none if `keys` is null.
template <class Key>
struct Guide {
    const Key* keys;
    const uint64_t* len;
};

/// Returns one of `samples` random keys of a batch, the same in every block.
template <class Key>
__device__ __forceinline__ Key sample_key(const Key* keys, uint32_t len, uint32_t index, uint32_t samples, uint32_t salt) {
    auto share = [&](uint64_t index) { return static_cast<uint32_t>(index * len / samples); };
    uint32_t begin = share(index), count = max(share(index + 1) - begin, 1);
    return keys[begin + mixed(index ^ salt) % count];
}

/// Returns how many splitters are less than a key.
template <int BUCKETS, class Key>
__device__ __forceinline__ uint32_t bucket_of(const Key (&splitters)[BUCKETS], Key key) {
    uint32_t bucket = 0;
#pragma unroll
    for (int step = BUCKETS / 2; step > 0; step /= 2) {
        if (splitters[bucket + step - 1] < key) bucket += step;
    }
    return bucket;
}

/// Leaves keys at equal distances in another run in shared memory, as splitters; returns whether they divide the batch well,
/// which all blocks find in the same way.
template <uint64_t LONGEST, class Key>
__device__ __forceinline__ bool take_splitters(CutShared<Key, LONGEST>& shared, const Key* keys, uint32_t len,
                                               uint32_t salt, const Guide<Key>& guide) {
    constexpr int BUCKETS = CutShared<Key, LONGEST>::BUCKETS, SAMPLES = CHECKS_PER_BUCKET * BUCKETS;
    uint64_t guide_len = guide.keys == nullptr ? 0 : *guide.len;
    if (guide_len == 0) return false;
    Key samples[SAMPLES / SORT_THREADS];
#pragma unroll
    for (int i = 0; i < SAMPLES / SORT_THREADS; i++) {
        samples[i] = sample_key(keys, len, i * SORT_THREADS + threadIdx.x, SAMPLES, salt);
    }
    for (int i = threadIdx.x; i < BUCKETS; i += SORT_THREADS) {
        shared.splitters[i] = i + 1 < BUCKETS ? guide.keys[(i + 1) * guide_len / BUCKETS] : HIGHEST<Key>;
        shared.counts[i] = 0;
    }
    __syncthreads();
    bool is_full = false;
#pragma unroll
    for (int i = 0; i < SAMPLES / SORT_THREADS; i++) {
        uint32_t bucket = bucket_of(shared.splitters, samples[i]);
        if (shared.splitters[bucket] == samples[i]) continue;
        is_full |= atomicAdd(shared.counts + bucket, 1) >= MOST_CHECKS;
    }
    return !__syncthreads_or(is_full);
}

/// Leaves splitters in shared memory: keys at equal distances in a random sample of the batch, the same in every block.
template <uint64_t LONGEST, class Key>
__device__ __forceinline__ void find_splitters(CutShared<Key, LONGEST>& shared, const Key* keys, uint32_t len,
                                               uint32_t salt) {
    using Sort = typename CutShared<Key, LONGEST>::Sort;
    constexpr int BUCKETS = CutShared<Key, LONGEST>::BUCKETS, SAMPLES = CutShared<Key, LONGEST>::SAMPLES;
#pragma unroll
    for (int i = 0; i < SAMPLES / SORT_THREADS; i++) {
        uint32_t index = i * SORT_THREADS + threadIdx.x;
        shared.sample.keys[index] = sample_key(keys, len, index, SAMPLES, salt);
    }
    __syncthreads();
    Sort::sort(shared.sample.sort, shared.sample.keys, SAMPLES);
    for (int i = threadIdx.x; i < BUCKETS; i += SORT_THREADS) {
        // Behind the last one are all greater keys.
        unsigned from = Sort::place(shared.sample.sort.words[min((i + 1) * SAMPLES_PER_BUCKET<Key>, SAMPLES - 1)]);
        shared.splitters[i] = i + 1 < BUCKETS ? shared.sample.keys[from] : HIGHEST<Key>;
    }
    __syncthreads();
}

/// Divides a tile of a batch at the splitters: writes its keys part after part, with their places in the tile, and where
/// each part begins.
template <uint64_t LONGEST, class Key>
__global__ void __launch_bounds__(SORT_THREADS, 1)
cut_kernel(const Key* keys, uint32_t len, uint32_t salt, Guide<Key> guide, CutBatch<Key> out) {
    using Shared = CutShared<Key, LONGEST>;
    using Rank = typename Shared::Rank;
    constexpr int BUCKETS = Shared::BUCKETS, PARTS = Shared::PARTS, TILE = Shared::TILE;
    constexpr int ITEMS = TILE / SORT_THREADS, BINS = Rank::BINS_TRACKED_PER_THREAD;
    wait_for_predecessor();
    extern __shared__ __align__(16) unsigned char memory[];
    auto& shared = *reinterpret_cast<Shared*>(memory);
    uint32_t first = blockIdx.x * TILE, tile_len = min(static_cast<uint32_t>(TILE), len - first);

    unsigned start = threadIdx.x / 32 * 32 * ITEMS + threadIdx.x % 32;
    Key mine[ITEMS];
#pragma unroll
    for (int i = 0; i < ITEMS; i++) {
        unsigned index = start + i * 32;
        mine[i] = index < tile_len ? keys[first + index] : Key(0);
    }
    if (!take_splitters<LONGEST>(shared, keys, len, salt, guide)) {
        find_splitters<LONGEST>(shared, keys, len, salt);
    }
    for (int i = threadIdx.x; blockIdx.x == 0 && i < BUCKETS; i += SORT_THREADS) {
        out.splitters[i] = shared.splitters[i];
        out.kept[i] = 0;
    }

    uint32_t parts[ITEMS];
    int ranks[ITEMS], offsets[BINS];
#pragma unroll
    for (int i = 0; i < ITEMS; i++) {
        uint32_t bucket = bucket_of(shared.splitters, mine[i]);
        // What is not there goes behind the rest of the last part.
        parts[i] = start + i * 32 < tile_len ? 2 * bucket + (shared.splitters[bucket] == mine[i]) : PARTS - 1;
    }
    __syncthreads();
    Rank(shared.rank).RankKeys(parts, ranks, cub::BFEDigitExtractor<uint32_t>(0, Shared::CUT.bits + 1), offsets);
    __syncthreads();
    uint16_t* of_tile = out.offsets + static_cast<size_t>(blockIdx.x) * Shared::CUT.offsets();
#pragma unroll
    for (int i = 0; i < BINS; i++) {
        int part = threadIdx.x * BINS + i;
        if (part < PARTS) of_tile[part] = static_cast<uint16_t>(offsets[i]);
    }
    if (threadIdx.x == 0) of_tile[PARTS] = static_cast<uint16_t>(tile_len);
#pragma unroll
    for (int i = 0; i < ITEMS; i++) {
        shared.tile.keys[ranks[i]] = mine[i];
        shared.tile.places[ranks[i]] = static_cast<uint16_t>(start + i * 32);
    }
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < tile_len; i += SORT_THREADS) {
        out.keys[first + i] = shared.tile.keys[i];
        out.places[first + i] = shared.tile.places[i];
    }
}

/// Some keys of a bucket: those from `least` to `greatest`. If they do not fit, they are all the same.
template <class Key>
struct Window {
    Key least, greatest;
    uint32_t count;
};

/// What a block that sorts a bucket has in shared memory: no more than it may have on any GPU that we compile for.
template <class Key>
struct BucketShared {
    static constexpr int ITEMS = SPLIT_ITEMS<Key>, CAPACITY = ITEMS * SORT_THREADS;
    using Whole = BlockSort<Key, SORT_THREADS, ITEMS>;
    using Half = BlockSort<Key, SORT_THREADS, (ITEMS + 1) / 2>;
    using Quarter = BlockSort<Key, SORT_THREADS, (ITEMS + 3) / 4>;
    using Scan = cub::BlockScan<uint32_t, SORT_THREADS, cub::BLOCK_SCAN_WARP_SCANS>;
    union {
        typename Whole::Shared whole;
        typename Half::Shared half;
        typename Quarter::Shared quarter;
        uint32_t histogram[256];
    };
    Key keys[CAPACITY];
    uint32_t from[CAPACITY];             // where in the batch they were
    uint32_t starts[CUT_TILES + 1];  // where the keys of each tile begin in the bucket
    uint16_t offsets[CUT_TILES];     // and in the tile
    typename Scan::TempStorage scan;
    Window<Key> window;    // that is sorted
    uint32_t len;          // how many keys the bucket has, without those that equal the splitter
    uint32_t last_equal;   // one more than where the last key was that equals the splitter, or 0
    Key last;              // the last key that is kept, if any is
    uint32_t before;       // how many keys are kept before this bucket
    uint32_t last_before;  // one more than the last bucket before it that keeps any, or 0
};

/// A bucket of a cut batch, of which a block sorts the keys and removes duplicates.
template <class Key>
class Bucket {
public:
    using Shared = BucketShared<Key>;

    /// Finds what every tile has of this bucket.
    __device__ __forceinline__ Bucket(Shared& shared, const CutBatch<Key>& batch) : shared_(shared), batch_(batch) {
        if (threadIdx.x == 0) shared.last_equal = shared.before = shared.last_before = 0;
        __syncthreads();
        uint32_t last_equal = 0, len = 0;
        for (uint32_t base = 0; base < batch.tiles; base += SORT_THREADS) {
            uint32_t tile = base + threadIdx.x, own = 0, before, all;
            if (tile < batch.tiles) {
                const uint16_t* offsets = batch.offsets + static_cast<size_t>(tile) * batch.cut.offsets() + 2 * blockIdx.x;
                uint32_t pair = *reinterpret_cast<const uint32_t*>(offsets), end = offsets[2];
                uint32_t begin = pair & PLACES, middle = pair >> 16, first = tile * batch.cut.tile;
                own = middle - begin;
                shared.offsets[tile] = static_cast<uint16_t>(begin);
                if (end > middle) last_equal = first + batch.places[first + end - 1] + 1;
            }
            typename Shared::Scan(shared.scan).ExclusiveSum(own, before, all);
            if (tile < batch.tiles) shared.starts[tile] = len + before;
            len += all;
            __syncthreads();
        }
        if (threadIdx.x == 0) shared.len = len;
        last_equal = __reduce_max_sync(~0u, last_equal);
        if (threadIdx.x % 32 == 0 && last_equal != 0) atomicMax(&shared.last_equal, last_equal);
        __syncthreads();
    }

    /// Returns whether all keys can be sorted at a time.
    __device__ __forceinline__ bool fits(uint32_t most) const { return shared_.len <= most; }

    /// Goes to the first window: all keys, or as many as can be sorted at a time.
    __device__ __forceinline__ void begin(uint32_t most) {
        if (fits(most)) set_window(0, HIGHEST<Key>, shared_.len);
        else find_window(0, most);
    }

    /// Goes to the next window; returns false if there is none.
    __device__ __forceinline__ bool advance(uint32_t most) {
        if (shared_.window.greatest == HIGHEST<Key>) return false;
        find_window(shared_.window.greatest + 1, most);
        return true;
    }

    /// Loads and sorts the keys of the window, and returns how many are kept.
    __device__ __forceinline__ uint32_t sort(uint32_t most) {
        if (shared_.window.count == 0) return 0;
        if (shared_.window.count > most) {
            load_last();
            return 1;
        }
        if (fits(most)) {
            uint32_t len = shared_.len;
#pragma unroll 4
            for (uint32_t index = threadIdx.x; index < len; index += SORT_THREADS) load(index, index);
            __syncthreads();
        } else {
            load_window();
        }
        return sorted(shared_.window.count);
    }

    /// Returns one of the keys that are kept, in order.
    __device__ __forceinline__ Key key(uint32_t index) const { return shared_.keys[place(index)]; }

    /// Writes keys that are kept, and their fences.
    __device__ __forceinline__ void write_keys(uint64_t position, uint32_t count, const RunOutput<Key, char>& out) const {
        for (uint32_t i = threadIdx.x; i < count; i += SORT_THREADS) {
            out.keys[position + i] = key(i);
            write_fences(out, position + i, key(i));
        }
    }

    /// Writes the values of keys that are kept.
    template <class Value>
    __device__ __forceinline__ void write_values(uint64_t position, uint32_t count, const Value* values, Value* out) const {
#pragma unroll 4
        for (uint32_t i = threadIdx.x; i < count; i += SORT_THREADS) out[position + i] = values[shared_.from[place(i)]];
    }

private:
    static constexpr unsigned PLACES = (1u << 16) - 1;

    /// `words` of all sorts are at the same place.
    __device__ __forceinline__ unsigned place(uint32_t index) const { return shared_.whole.words[index] & PLACES; }

    /// Returns where one of the keys is among those of all tiles.
    __device__ __forceinline__ uint32_t locate(uint32_t index, uint32_t& tile) const {
        tile = 0;  // the last one that begins at or before it
#pragma unroll
        for (uint32_t step = CUT_TILES / 2; step > 0; step /= 2) {
            if (tile + step < batch_.tiles && shared_.starts[tile + step] <= index) tile += step;
        }
        return tile * batch_.cut.tile + shared_.offsets[tile] + index - shared_.starts[tile];
    }

    __device__ __forceinline__ Key key_in_bucket(uint32_t index) const {
        uint32_t tile;
        return batch_.keys[locate(index, tile)];
    }

    __device__ __forceinline__ void load(uint32_t index, uint32_t to) {
        uint32_t tile, at = locate(index, tile);
        shared_.keys[to] = batch_.keys[at];
        shared_.from[to] = tile * batch_.cut.tile + batch_.places[at];
    }

    /// Sorts what is loaded, removes duplicates, and returns how many keys are left.
    __device__ __forceinline__ uint32_t sorted(uint32_t count) {
        constexpr int ITEMS = Shared::ITEMS;
        auto* keys = shared_.keys;
        if (count <= Shared::Quarter::CAPACITY) Shared::Quarter::sort(shared_.quarter, keys, count);
        else if (count <= Shared::Half::CAPACITY) Shared::Half::sort(shared_.half, keys, count);
        else Shared::Whole::sort(shared_.whole, keys, count);

        uint32_t each = (count + SORT_THREADS - 1) / SORT_THREADS, kept = 0, before, all;
        uint32_t begin = min(threadIdx.x * each, count), end = min(begin + each, count);
        uint16_t places[ITEMS];
#pragma unroll
        for (uint32_t i = 0; i < ITEMS; i++) {
            uint32_t index = begin + i;
            if (index >= end) continue;
            places[i] = static_cast<uint16_t>(place(index));
            if (index + 1 == count || keys[places[i]] != keys[place(index + 1)]) kept |= 1u << i;
        }
        typename Shared::Scan(shared_.scan).ExclusiveSum(static_cast<uint32_t>(__popc(kept)), before, all);
        __syncthreads();
        if (all == count) return all;
#pragma unroll
        for (uint32_t i = 0; i < ITEMS; i++) {
            if (kept >> i & 1) shared_.whole.words[before++] = places[i];
        }
        __syncthreads();
        return all;
    }

    /// For whole blocks.
    __device__ __forceinline__ void set_window(Key least, Key greatest, uint32_t count) {
        __syncthreads();
        if (threadIdx.x == 0) shared_.window = {least, greatest, count};
        __syncthreads();
    }

    /// Finds the longest window from a key on, in steps of 8 bits.
    __device__ __forceinline__ void find_window(Key least, uint32_t most) {
        for (Key greatest = HIGHEST<Key>;;) {
            Key span = greatest - least;
            int shift = span == 0 ? 0 : max(0, highest_bit(span) + 1 - 8);
            __syncthreads();
            for (int i = threadIdx.x; i < 256; i += SORT_THREADS) shared_.histogram[i] = 0;
            __syncthreads();
            for (uint32_t index = threadIdx.x; index < shared_.len; index += SORT_THREADS) {
                Key key = key_in_bucket(index);
                if (key < least || key > greatest) continue;
                atomicAdd(shared_.histogram + static_cast<uint32_t>((key - least) >> shift), 1);
            }
            __syncthreads();
            uint32_t cells = 0, count = 0, first = shared_.histogram[0];
            while (cells < 256 && count + shared_.histogram[cells] <= most) count += shared_.histogram[cells++];
            if (cells == 256) return set_window(least, greatest, count);
            if (cells > 0) return set_window(least, least + (static_cast<Key>(cells) << shift) - 1, count);
            if (shift == 0) return set_window(least, least, first);
            greatest = least + (static_cast<Key>(1) << shift) - 1;
        }
    }

    /// Loads the keys of the window in the order they came.
    __device__ __forceinline__ void load_window() {
        uint32_t loaded = 0, before, all;
        for (uint32_t base = 0; base < shared_.len; base += SORT_THREADS) {
            uint32_t index = base + threadIdx.x;
            Key key = index < shared_.len ? key_in_bucket(index) : Key(0);
            bool is_in = index < shared_.len && key >= shared_.window.least && key <= shared_.window.greatest;
            typename Shared::Scan(shared_.scan).ExclusiveSum(static_cast<uint32_t>(is_in), before, all);
            if (is_in) load(index, loaded + before);
            loaded += all;
            __syncthreads();
        }
    }

    /// Loads the last key of a window of equal ones, as if it was sorted.
    __device__ __forceinline__ void load_last() {
        if (threadIdx.x == 0) shared_.histogram[0] = 0;
        __syncthreads();
        for (uint32_t index = threadIdx.x; index < shared_.len; index += SORT_THREADS) {
            if (key_in_bucket(index) == shared_.window.least) atomicMax(shared_.histogram, index);
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            load(shared_.histogram[0], 0);
            shared_.whole.words[0] = 0;
        }
        __syncthreads();
    }

    Shared& shared_;
    const CutBatch<Key>& batch_;
};

/// Publishes how many keys this block's bucket keeps, and the last one, and learns how many those before it keep. Blocks
/// start in the order of their indices, so none waits for one that cannot start. For whole blocks.
template <class Key>
__device__ __forceinline__ void wait_for_others(BucketShared<Key>& shared, const CutBatch<Key>& batch, uint32_t own) {
    uint32_t* kept = batch.kept;
    if (threadIdx.x == 0) {
        batch.last[blockIdx.x] = shared.last;
        __threadfence();  // A block that sees the number sees the key.
        *static_cast<volatile uint32_t*>(kept + blockIdx.x) = own | KNOWN;
    }
    uint32_t before = 0, last = 0;
    for (uint32_t other = threadIdx.x; other < blockIdx.x; other += SORT_THREADS) {
        uint32_t known;
        do known = *static_cast<const volatile uint32_t*>(kept + other);
        while (known == 0);
        before += known & ~KNOWN;
        if (known != KNOWN) last = other + 1;
    }
    before = __reduce_add_sync(~0u, before);
    last = __reduce_max_sync(~0u, last);
    if (threadIdx.x % 32 == 0 && before != 0) {
        atomicAdd(&shared.before, before);
        atomicMax(&shared.last_before, last);
    }
    __syncthreads();
}

/// Sorts a bucket of a cut batch, removes duplicates, and writes the rest as its part of a run. At most `most` keys are
/// sorted at a time.
template <class Key>
__global__ void __launch_bounds__(SORT_THREADS)
sort_bucket_kernel(CutBatch<Key> batch, const void* values, int value_width, uint32_t most, RunOutput<Key, char> out) {
    wait_for_predecessor();
    extern __shared__ __align__(16) unsigned char memory[];
    auto& shared = *reinterpret_cast<BucketShared<Key>*>(memory);
    Bucket<Key> bucket(shared, batch);
    // Calls `body` with the type of values and their arrays.
    auto with_values = [&](auto body) {
        if (value_width == 4) body(static_cast<const uint32_t*>(values), reinterpret_cast<uint32_t*>(out.values));
        if (value_width == 8) body(static_cast<const uint64_t*>(values), reinterpret_cast<uint64_t*>(out.values));
        if (value_width == 16) body(static_cast<const ulonglong2*>(values), reinterpret_cast<ulonglong2*>(out.values));
    };

    // First to learn how many keys are kept, then to write them. What fits is sorted once.
    uint32_t kept = 0, count = 0;
#pragma unroll 1
    for (bool writes = false;; writes = true) {
        uint32_t position = shared.before;
        bucket.begin(most);
#pragma unroll 1
        do {
            if (!writes || !bucket.fits(most)) count = bucket.sort(most);
            if (writes) {
                bucket.write_keys(position, count, out);
                with_values([&](auto* from, auto* to) { bucket.write_values(position, count, from, to); });
            } else if (count > 0 && threadIdx.x == 0) {
                shared.last = bucket.key(count - 1);
            }
            position += count;
        } while (bucket.advance(most));
        if (writes) break;
        kept = position;
        if (threadIdx.x == 0 && shared.last_equal != 0) shared.last = batch.splitters[blockIdx.x];
        wait_for_others(shared, batch, kept + (shared.last_equal != 0));
    }

    uint32_t position = shared.before + kept;
    if (shared.last_equal != 0) {
        if (threadIdx.x == 0) {
            out.keys[position] = shared.last;
            with_values([&](auto* from, auto* to) { to[position] = from[shared.last_equal - 1]; });
            write_fences(out, position, shared.last);
        }
        kept++;
        position++;
    }
    if (blockIdx.x == gridDim.x - 1 && threadIdx.x < 32) {
        __threadfence();
        Key last = kept == 0 ? batch.last[shared.last_before - 1] : shared.last;
        finish(Totals<Key>{position, static_cast<int64_t>(position), 0, last}, out);
    }
}

/// Divides memory into the parts of a cut batch; returns how many bytes they take.
template <class Key>
size_t divide(char* memory, uint64_t len, CutBatch<Key>& batch) {
    size_t used = 0;
    auto take = [&](auto*& part, size_t count) {
        using T = std::remove_reference_t<decltype(*part)>;
        part = reinterpret_cast<T*>(memory + used);
        used += (count * sizeof(T) + 15) / 16 * 16;
    };
    batch.cut = cut_of<Key>(len);
    batch.tiles = blocks_for(len, batch.cut.tile);
    take(batch.keys, len);
    take(batch.splitters, batch.cut.buckets());
    take(batch.last, batch.cut.buckets());
    take(batch.kept, batch.cut.buckets());
    take(batch.places, len);
    take(batch.offsets, static_cast<size_t>(batch.tiles) * batch.cut.offsets());
    return used;
}

/// Cuts a batch.
template <uint64_t LONGEST, class Key>
cudaError_t cut(const Key* keys, uint64_t len, uint32_t salt, const Guide<Key>& guide, const CutBatch<Key>& batch,
                cudaStream_t stream) {
    using Shared = CutShared<Key, LONGEST>;
    static_assert(sizeof(Shared) <= LEAST_SHARED);
    auto kernel = cut_kernel<LONGEST, Key>;
    if (cudaError_t error = allow_shared(kernel, sizeof(Shared)); error != cudaSuccess) return error;
    return launch_early(kernel, batch.tiles, SORT_THREADS, sizeof(Shared), stream, keys, static_cast<uint32_t>(len), salt, guide, batch);
}

}  // namespace gpulsm

using namespace gpulsm;

/// Returns the most keys that can be sorted by splitters.
extern "C" uint64_t gpulsm_splitter_sort_most(int key_width) {
    return key_width <= 8 ? MANY_CUT<uint64_t> : MANY_CUT<WideKey>;
}

/// Returns the bytes of memory that sorting by splitters takes besides its output.
extern "C" uint64_t gpulsm_splitter_sort_scratch(int key_width, uint64_t len) {
    uint64_t bytes = 0;
    with_key(key_width, [&](auto key) -> int {
        CutBatch<typename decltype(key)::type> batch;
        bytes = divide(nullptr, len, batch);
        return 0;
    });
    return bytes;
}

/// Sorts a batch of at least one key, and at most as many as is possible, and keeps the last of equal ones. `salt` is any
/// number, `most` the most keys of a bucket that are sorted at a time, 0 for as many as there is room for. `guide_keys` are keys
/// of a run, in whose head `guide_len` is, or null.
GPULSM_EXPORT gpulsm_splitter_sort(int key_width, int value_width, const void* keys, const void* values, uint64_t len,
                                   uint32_t salt, uint32_t most, const void* guide_keys, const uint64_t* guide_len, void* scratch, const RunOutput<char, char>* out,
                                   cudaStream_t stream) {
    return with_key(key_width, [&](auto key) -> int {
        using Key = typename decltype(key)::type;
        using Shared = BucketShared<Key>;
        static_assert(sizeof(Shared) <= LEAST_SHARED);
        CutBatch<Key> batch;
        divide(static_cast<char*>(scratch), len, batch);
        auto* typed_keys = static_cast<const Key*>(keys);
        Guide<Key> guide = {static_cast<const Key*>(guide_keys), guide_len};
        uint64_t longest = longest_alike(len);
        cudaError_t error = longest == FEW_CUT       ? cut<FEW_CUT>(typed_keys, len, salt, guide, batch, stream)
                            : longest == 2 * FEW_CUT ? cut<2 * FEW_CUT>(typed_keys, len, salt, guide, batch, stream)
                                                     : cudaErrorInvalidValue;
        if constexpr (MANY_CUT<Key> > 2 * FEW_CUT) {
            if (longest > 2 * FEW_CUT) error = cut<4 * FEW_CUT>(typed_keys, len, salt, guide, batch, stream);
        }
        if (error != cudaSuccess) return error;
        auto kernel = sort_bucket_kernel<Key>;
        error = allow_shared(kernel, sizeof(Shared));
        if (error != cudaSuccess) return error;
        uint32_t at_a_time = most == 0 ? Shared::CAPACITY : std::min<uint32_t>(most, Shared::CAPACITY);
        return launch_early(kernel, batch.cut.buckets(), SORT_THREADS, sizeof(Shared), stream, batch, values, value_width,
                            at_a_time, reinterpret_cast<const RunOutput<Key, char>&>(*out));
    });
}
