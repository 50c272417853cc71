// Keys of 16 bytes, for which CUDA has arithmetic, but neither cached loads nor shuffles.
#pragma once

#include <cstdint>

namespace gpulsm {

/// A key of 16 bytes.
using WideKey = unsigned __int128;

/// Returns the wide key with these halves, in the order in which they lie in memory.
__device__ __forceinline__ WideKey of_halves(ulonglong2 halves) {
    return static_cast<WideKey>(halves.y) << 64 | halves.x;
}

/// Reads a key that no kernel changes, through the cache for such data.
template <class Key>
__device__ __forceinline__ Key read_key(const Key* key) {
    if constexpr (sizeof(Key) == 16) return of_halves(__ldg(reinterpret_cast<const ulonglong2*>(key)));
    else return __ldg(key);
}

}  // namespace gpulsm
