// Packs keys of several parts, which come as a column for each part, into the integers that engines sort by, and back.
#include "run/columns.cuh"

#include <gpulsm/keys.cuh>

#include "dispatch.cuh"
#include "tuning.cuh"

namespace gpulsm {

/// Returns the integer that an element of a column sorts by.
template <class Key>
__device__ __forceinline__ Key read_part(const KeyColumn& column, uint64_t index) {
    auto encoding = static_cast<Encoding>(column.encoding);
    if (column.encoding == BYTES) {
        const auto* bytes = static_cast<const uint8_t*>(column.data) + index * column.width;
        Key part = 0;
        for (int i = 0; i < column.width; i++) part = part << 8 | bytes[i];
        return part;
    }
    if (column.width == 4) return to_ordered(encoding, static_cast<const uint32_t*>(column.data)[index]);
    return static_cast<Key>(to_ordered(encoding, static_cast<const uint64_t*>(column.data)[index]));
}

/// Writes the element of a column that sorts by the low bits of an integer.
template <class Key>
__device__ __forceinline__ void write_part(const KeyColumn& column, uint64_t index, Key part) {
    auto encoding = static_cast<Encoding>(column.encoding);
    if (column.encoding == BYTES) {
        auto* bytes = static_cast<uint8_t*>(column.data) + index * column.width;
        for (int i = column.width - 1; i >= 0; i--, part >>= 8) bytes[i] = static_cast<uint8_t>(part);
    } else if (column.width == 4) {
        static_cast<uint32_t*>(column.data)[index] = from_ordered(encoding, static_cast<uint32_t>(part));
    } else {
        static_cast<uint64_t*>(column.data)[index] = from_ordered(encoding, static_cast<uint64_t>(part));
    }
}

/// Writes zeros to an element of a column.
__device__ __forceinline__ void write_zeros(const KeyColumn& column, uint64_t index) {
    if (column.encoding == BYTES) {
        write_part<uint32_t>(column, index, 0);
    } else if (column.width == 4) {
        static_cast<uint32_t*>(column.data)[index] = 0;
    } else {
        static_cast<uint64_t*>(column.data)[index] = 0;
    }
}

/// Packs columns.
template <class Key>
__global__ void __launch_bounds__(THREADS)
pack_kernel(const __grid_constant__ KeyColumns columns, uint64_t len, Key* packed) {
    uint64_t index = blockIdx.x * static_cast<uint64_t>(THREADS) + threadIdx.x;
    if (index >= len) return;
    Key key = static_cast<Key>(columns.low);
    if constexpr (sizeof(Key) == 16) key |= static_cast<Key>(columns.high) << 64;
    for (int i = 0; i < columns.count; i++) {
        const KeyColumn& column = columns.at[i];
        key |= read_part<Key>(column, index) << column.below;
    }
    packed[index] = key;
}

/// Unpacks keys to columns; those that were not found to zeros.
template <class Key>
__global__ void __launch_bounds__(THREADS)
unpack_kernel(const Key* packed, uint64_t len, const uint8_t* found, const __grid_constant__ KeyColumns columns) {
    uint64_t index = blockIdx.x * static_cast<uint64_t>(THREADS) + threadIdx.x;
    if (index >= len) return;
    bool is_found = found == nullptr || found[index] != 0;
    Key key = packed[index];
    for (int i = 0; i < columns.count; i++) {
        const KeyColumn& column = columns.at[i];
        if (is_found) write_part<Key>(column, index, key >> column.below);
        else write_zeros(column, index);
    }
}

/// Moves the ends of ranges that are excluded to the next key inside.
template <class Key>
__global__ void __launch_bounds__(THREADS)
exclude_ends_kernel(Key* lo, Key* hi, uint64_t len, Key highest, bool excludes_lo, bool excludes_hi) {
    uint64_t index = blockIdx.x * static_cast<uint64_t>(THREADS) + threadIdx.x;
    if (index >= len) return;
    Key first = lo[index], last = hi[index];
    bool is_empty = (excludes_lo && first >= highest) || (excludes_hi && last == 0);
    lo[index] = is_empty ? highest : first + excludes_lo;
    hi[index] = is_empty ? 0 : last - excludes_hi;
}

}  // namespace gpulsm

using namespace gpulsm;

/// Packs the columns of `len` keys.
GPULSM_EXPORT gpulsm_pack(int key_width, const KeyColumns* columns, uint64_t len, void* packed, cudaStream_t stream) {
    return with_key(key_width, [&](auto key) -> int {
        using Key = typename decltype(key)::type;
        pack_kernel<<<blocks_for(len, THREADS), THREADS, 0, stream>>>(*columns, len, static_cast<Key*>(packed));
        return cudaGetLastError();
    });
}

/// Unpacks `len` keys to columns; those that were not `found`, unless that is null, to zeros.
GPULSM_EXPORT gpulsm_unpack(int key_width, const void* packed, uint64_t len, const uint8_t* found,
                            const KeyColumns* columns, cudaStream_t stream) {
    return with_key(key_width, [&](auto key) -> int {
        using Key = typename decltype(key)::type;
        unpack_kernel<<<blocks_for(len, THREADS), THREADS, 0, stream>>>(static_cast<const Key*>(packed), len, found,
                                                                         *columns);
        return cudaGetLastError();
    });
}

/// Moves the ends of `len` ranges of packed keys, which have as many bits as given, to the next key inside, where
/// they are excluded. A range without any key becomes one whose ends are in the wrong order.
GPULSM_EXPORT gpulsm_exclude_ends(int key_width, int bits, void* lo, void* hi, uint64_t len, bool excludes_lo,
                                  bool excludes_hi, cudaStream_t stream) {
    return with_key(key_width, [&](auto key) -> int {
        using Key = typename decltype(key)::type;
        Key highest = ~Key(0) >> (sizeof(Key) * 8 - bits);
        exclude_ends_kernel<<<blocks_for(len, THREADS), THREADS, 0, stream>>>(
            static_cast<Key*>(lo), static_cast<Key*>(hi), len, highest, excludes_lo, excludes_hi);
        return cudaGetLastError();
    });
}
