// Sums by key in a hash map of NVIDIA's cuCollections, for python/benchmarks/group_by.py --cucollections LIBRARY.
//
//     nvcc -std=c++17 -O3 -arch=native --extended-lambda --expt-relaxed-constexpr -shared -Xcompiler=-fPIC \
//         -Icucollections/include cucollections.cu -o libcucollections.so
#include <cuco/static_map.cuh>

#include <thrust/iterator/transform_iterator.h>
#include <thrust/iterator/zip_iterator.h>

#include <cstdint>

namespace {

using Map = cuco::static_map<int64_t, int64_t, cuco::extent<std::size_t>, cuda::thread_scope_device,
                             thrust::equal_to<int64_t>, cuco::linear_probing<1, cuco::murmurhash3_fmix_64<int64_t>>>;

struct AddTo {
    template <class Sum>
    __device__ void operator()(Sum sum, int64_t value) const {
        sum.fetch_add(value, cuda::memory_order_relaxed);
    }
};

struct ToPair {
    __device__ cuco::pair<int64_t, int64_t> operator()(const thrust::tuple<int64_t, int64_t>& pair) const {
        return {thrust::get<0>(pair), thrust::get<1>(pair)};
    }
};

}  // namespace

/// Returns an empty map of a fixed capacity; -1 is no key.
extern "C" void* cucollections_new(uint64_t capacity) {
    return new Map(capacity, cuco::empty_key<int64_t>{-1}, cuco::empty_value<int64_t>{0});
}

/// Adds values to the sums of keys, both on the GPU.
extern "C" void cucollections_add(void* map, const int64_t* keys, const int64_t* values, uint64_t len) {
    auto pairs = thrust::make_transform_iterator(thrust::make_zip_iterator(thrust::make_tuple(keys, values)), ToPair{});
    static_cast<Map*>(map)->insert_or_apply_async(pairs, pairs + len, int64_t{0}, AddTo{});
}

/// Writes all keys and sums, in no order; returns how many there are.
extern "C" uint64_t cucollections_read(void* map, int64_t* keys, int64_t* sums) {
    auto ends = static_cast<Map*>(map)->retrieve_all(keys, sums);
    return ends.first - keys;
}

extern "C" void cucollections_free(void* map) { delete static_cast<Map*>(map); }
