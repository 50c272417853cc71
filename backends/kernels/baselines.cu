// What `gpulsm bench` needs on a GPU beside the dictionary: clocks, and the plain structures it is
// measured against. A sorted array, kept sorted by merging every batch with all there is, and a hash
// table with open addressing.
#include <cstdint>
#include <cub/device/device_merge.cuh>
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_scan.cuh>

namespace {

constexpr int THREADS = 256;

unsigned blocks(uint64_t items) { return static_cast<unsigned>((items + THREADS - 1) / THREADS); }

__device__ uint64_t index() { return blockIdx.x * static_cast<uint64_t>(THREADS) + threadIdx.x; }

template <class T>
struct Type {
    using type = T;
};

/// Calls `body(Type<Key>, Type<Value>)`, of 4 or 8 bytes each.
template <class Body>
int with_types(int key_width, int value_width, Body body) {
    auto with_value = [&](auto key) {
        return value_width == 4 ? body(key, Type<uint32_t>()) : body(key, Type<uint64_t>());
    };
    return key_width == 4 ? with_value(Type<uint32_t>()) : with_value(Type<uint64_t>());
}

/// The first position whose key is not less than `key`: a plain binary search.
template <class Key>
__device__ uint64_t lower_bound(const Key* keys, uint64_t len, Key key) {
    uint64_t start = 0;
    while (len > 0) {
        uint64_t half = len / 2;
        bool less = keys[start + half] < key;
        start = less ? start + half + 1 : start;
        len = less ? len - half - 1 : half;
    }
    return start;
}

template <class Key, class Value>
__global__ void array_lookup(const Key* keys, const Value* values, uint64_t len, const Key* queries, uint64_t many,
                             Value* answers, uint8_t* found) {
    uint64_t i = index();
    if (i >= many) return;
    uint64_t place = lower_bound(keys, len, queries[i]);
    bool there = place < len && keys[place] == queries[i];
    answers[i] = there ? values[place] : 0;
    found[i] = there;
}

/// Where each range begins, and how many keys it has; one more count, of nothing, for a running sum.
template <class Key>
__global__ void array_count(const Key* keys, uint64_t len, const Key* lo, const Key* hi, uint64_t many,
                            uint64_t* counts, uint64_t* starts) {
    uint64_t i = index();
    if (starts != nullptr && i == many) counts[i] = 0;
    if (i >= many) return;
    uint64_t start = lower_bound(keys, len, lo[i]);
    bool to_end = hi[i] == static_cast<Key>(~static_cast<Key>(0));
    uint64_t end = to_end ? len : lower_bound(keys, len, static_cast<Key>(hi[i] + 1));
    counts[i] = end - start;
    if (starts != nullptr) starts[i] = start;
}

/// Copies the pairs of each range, a few threads for each.
template <int LANES, class Key, class Value>
__global__ void array_copy(const Key* keys, const Value* values, const uint64_t* starts, const uint64_t* offsets,
                           uint64_t many, Key* out_keys, Value* out_values) {
    uint64_t range = index() / LANES;
    if (range >= many) return;
    uint64_t offset = offsets[range], len = offsets[range + 1] - offset, start = starts[range];
    for (uint64_t i = threadIdx.x % LANES; i < len; i += LANES) {
        out_keys[offset + i] = keys[start + i];
        out_values[offset + i] = values[start + i];
    }
}

/// The slot that a key is looked for first.
template <class Key>
__device__ uint64_t slot_of(Key key, uint64_t slots) {
    return __umul64hi(static_cast<uint64_t>(key) * 0x9e3779b97f4a7c15ull, slots);
}

/// A slot without a key has all bits set.
template <class Key>
constexpr Key EMPTY = static_cast<Key>(~static_cast<Key>(0));

__device__ uint32_t exchange(uint32_t* slot, uint32_t key) { return atomicCAS(slot, EMPTY<uint32_t>, key); }
__device__ uint64_t exchange(uint64_t* slot, uint64_t key) {
    return atomicCAS(reinterpret_cast<unsigned long long*>(slot), EMPTY<uint64_t>, key);
}

template <class Key, class Value>
__global__ void hash_insert(Key* table_keys, Value* table_values, uint64_t slots, const Key* keys,
                            const Value* values, uint64_t many) {
    uint64_t i = index();
    if (i >= many) return;
    Key key = keys[i];
    for (uint64_t slot = slot_of(key, slots);; slot = slot + 1 == slots ? 0 : slot + 1) {
        Key old = exchange(table_keys + slot, key);
        if (old != EMPTY<Key> && old != key) continue;
        table_values[slot] = values[i];
        return;
    }
}

template <class Key, class Value>
__global__ void hash_lookup(const Key* table_keys, const Value* table_values, uint64_t slots, const Key* queries,
                            uint64_t many, Value* answers, uint8_t* found) {
    uint64_t i = index();
    if (i >= many) return;
    Key key = queries[i];
    uint64_t slot = slot_of(key, slots);
    while (table_keys[slot] != key && table_keys[slot] != EMPTY<Key>) slot = slot + 1 == slots ? 0 : slot + 1;
    bool there = table_keys[slot] == key;
    answers[i] = there ? table_values[slot] : 0;
    found[i] = there;
}

}  // namespace

#define EXPORT extern "C" int

/// What follows is for this GPU.
EXPORT bench_use(int device) { return cudaSetDevice(device); }

EXPORT bench_event_new(cudaEvent_t* event) { return cudaEventCreate(event); }
EXPORT bench_event_free(cudaEvent_t event) { return cudaEventDestroy(event); }
EXPORT bench_event_record(cudaEvent_t event, cudaStream_t stream) { return cudaEventRecord(event, stream); }

/// Milliseconds between two events, once both have happened.
EXPORT bench_event_elapsed(cudaEvent_t from, cudaEvent_t to, float* milliseconds) {
    int error = cudaEventSynchronize(to);
    return error != cudaSuccess ? error : cudaEventElapsedTime(milliseconds, from, to);
}

struct Description {
    char name[256];
    uint64_t memory, l2;
    int multiprocessors, clock_khz, memory_clock_khz, driver, runtime, major, minor;
};

EXPORT bench_describe(int device, Description* description) {
    cudaDeviceProp properties;
    int error = cudaGetDeviceProperties(&properties, device);
    if (error != cudaSuccess) return error;
    for (int i = 0; i < 256; i++) description->name[i] = properties.name[i];
    description->memory = properties.totalGlobalMem;
    description->l2 = properties.l2CacheSize;
    description->multiprocessors = properties.multiProcessorCount;
    description->major = properties.major;
    description->minor = properties.minor;
    cudaDeviceGetAttribute(&description->clock_khz, cudaDevAttrClockRate, device);
    cudaDeviceGetAttribute(&description->memory_clock_khz, cudaDevAttrMemoryClockRate, device);
    cudaDriverGetVersion(&description->driver);
    return cudaRuntimeGetVersion(&description->runtime);
}

/// Sorts pairs. With `temp` null, only says how many bytes of it there must be; so do those below.
EXPORT bench_sort(int key_width, int value_width, void* temp, size_t* bytes, const void* keys, void* keys_out,
                  const void* values, void* values_out, uint64_t len, cudaStream_t stream) {
    return with_types(key_width, value_width, [&](auto key, auto value) -> int {
        using Key = typename decltype(key)::type;
        using Value = typename decltype(value)::type;
        return cub::DeviceRadixSort::SortPairs(temp, *bytes, static_cast<const Key*>(keys),
                                               static_cast<Key*>(keys_out), static_cast<const Value*>(values),
                                               static_cast<Value*>(values_out), len, 0, sizeof(Key) * 8, stream);
    });
}

/// Merges two sorted arrays of pairs.
EXPORT bench_merge(int key_width, int value_width, void* temp, size_t* bytes, const void* keys_a,
                   const void* values_a, uint64_t len_a, const void* keys_b, const void* values_b, uint64_t len_b,
                   void* keys_out, void* values_out, cudaStream_t stream) {
    return with_types(key_width, value_width, [&](auto key, auto value) -> int {
        using Key = typename decltype(key)::type;
        using Value = typename decltype(value)::type;
        return cub::DeviceMerge::MergePairs(
            temp, *bytes, static_cast<const Key*>(keys_a), static_cast<const Value*>(values_a),
            static_cast<int64_t>(len_a), static_cast<const Key*>(keys_b), static_cast<const Value*>(values_b),
            static_cast<int64_t>(len_b), static_cast<Key*>(keys_out), static_cast<Value*>(values_out),
            cuda::std::less<Key>(), stream);
    });
}

EXPORT bench_array_lookup(int key_width, int value_width, const void* keys, const void* values, uint64_t len,
                          const void* queries, uint64_t many, void* answers, uint8_t* found, cudaStream_t stream) {
    return with_types(key_width, value_width, [&](auto key, auto value) -> int {
        using Key = typename decltype(key)::type;
        using Value = typename decltype(value)::type;
        array_lookup<<<blocks(many), THREADS, 0, stream>>>(
            static_cast<const Key*>(keys), static_cast<const Value*>(values), len, static_cast<const Key*>(queries),
            many, static_cast<Value*>(answers), found);
        return cudaGetLastError();
    });
}

EXPORT bench_array_count(int key_width, const void* keys, uint64_t len, const void* lo, const void* hi,
                         uint64_t many, uint64_t* counts, cudaStream_t stream) {
    return with_types(key_width, 4, [&](auto key, auto) -> int {
        using Key = typename decltype(key)::type;
        array_count<<<blocks(many), THREADS, 0, stream>>>(static_cast<const Key*>(keys), len,
                                                          static_cast<const Key*>(lo), static_cast<const Key*>(hi),
                                                          many, counts, static_cast<uint64_t*>(nullptr));
        return cudaGetLastError();
    });
}

/// Ranges with their pairs: counted, added up, copied. `offsets` has room for one more than there are
/// ranges, `starts` for as many.
EXPORT bench_array_range(int key_width, int value_width, void* temp, size_t* bytes, const void* keys,
                         const void* values, uint64_t len, const void* lo, const void* hi, uint64_t many,
                         uint64_t* starts, uint64_t* offsets, void* out_keys, void* out_values,
                         cudaStream_t stream) {
    auto prefix_sum = [&] { return cub::DeviceScan::ExclusiveSum(temp, *bytes, offsets, offsets, many + 1, stream); };
    if (temp == nullptr) return prefix_sum();
    return with_types(key_width, value_width, [&](auto key, auto value) -> int {
        using Key = typename decltype(key)::type;
        using Value = typename decltype(value)::type;
        array_count<<<blocks(many + 1), THREADS, 0, stream>>>(static_cast<const Key*>(keys), len,
                                                              static_cast<const Key*>(lo),
                                                              static_cast<const Key*>(hi), many, offsets, starts);
        int error = prefix_sum();
        if (error != cudaSuccess) return error;
        array_copy<8><<<blocks(many * 8), THREADS, 0, stream>>>(
            static_cast<const Key*>(keys), static_cast<const Value*>(values), starts, offsets, many,
            static_cast<Key*>(out_keys), static_cast<Value*>(out_values));
        return cudaGetLastError();
    });
}

/// Inserts pairs into a table, whose keys are cleared first.
EXPORT bench_hash_build(int key_width, int value_width, void* table_keys, void* table_values, uint64_t slots,
                        const void* keys, const void* values, uint64_t many, cudaStream_t stream) {
    int error = cudaMemsetAsync(table_keys, 0xff, slots * key_width, stream);
    if (error != cudaSuccess) return error;
    return with_types(key_width, value_width, [&](auto key, auto value) -> int {
        using Key = typename decltype(key)::type;
        using Value = typename decltype(value)::type;
        hash_insert<<<blocks(many), THREADS, 0, stream>>>(
            static_cast<Key*>(table_keys), static_cast<Value*>(table_values), slots, static_cast<const Key*>(keys),
            static_cast<const Value*>(values), many);
        return cudaGetLastError();
    });
}

EXPORT bench_hash_lookup(int key_width, int value_width, const void* table_keys, const void* table_values,
                         uint64_t slots, const void* queries, uint64_t many, void* answers, uint8_t* found,
                         cudaStream_t stream) {
    return with_types(key_width, value_width, [&](auto key, auto value) -> int {
        using Key = typename decltype(key)::type;
        using Value = typename decltype(value)::type;
        hash_lookup<<<blocks(many), THREADS, 0, stream>>>(
            static_cast<const Key*>(table_keys), static_cast<const Value*>(table_values), slots,
            static_cast<const Key*>(queries), many, static_cast<Value*>(answers), found);
        return cudaGetLastError();
    });
}
