// Maps keys that are not unsigned integers to unsigned integers of the same order, and back.
#include <gpulsm/keys.cuh>

#include "dispatch.cuh"
#include "tuning.cuh"

namespace gpulsm {

/// Maps keys to ordered integers.
template <class Key>
__global__ void __launch_bounds__(THREADS) encode_kernel(Encoding encoding, const Key* from, uint64_t len, Key* to) {
    uint64_t index = blockIdx.x * static_cast<uint64_t>(THREADS) + threadIdx.x;
    if (index < len) to[index] = to_ordered(encoding, from[index]);
}

/// Maps ordered integers back to keys.
template <class Key>
__global__ void __launch_bounds__(THREADS)
decode_kernel(Encoding encoding, Key* keys, uint64_t room, const uint8_t* found, const uint64_t* written) {
    uint64_t index = blockIdx.x * static_cast<uint64_t>(THREADS) + threadIdx.x;
    uint64_t len = written == nullptr ? room : *written <= room ? *written : 0;
    if (index >= len || (found != nullptr && found[index] == 0)) return;
    keys[index] = from_ordered(encoding, keys[index]);
}

}  // namespace gpulsm

using namespace gpulsm;

/// Maps keys to ordered integers.
GPULSM_EXPORT gpulsm_encode(int key_width, int encoding, const void* from, uint64_t len, void* to,
                            cudaStream_t stream) {
    return with_key(key_width, [&](auto key) -> int {
        using Key = typename decltype(key)::type;
        encode_kernel<<<blocks_for(len, THREADS), THREADS, 0, stream>>>(
            static_cast<Encoding>(encoding), static_cast<const Key*>(from), len, static_cast<Key*>(to));
        return cudaGetLastError();
    });
}

/// Maps ordered integers back to keys, in place: those that were `found`, or all where that is null. If `written`
/// is not null, it holds their number; if that exceeds `room`, nothing was written and nothing is mapped.
GPULSM_EXPORT gpulsm_decode(int key_width, int encoding, void* keys, uint64_t room, const uint8_t* found,
                            const uint64_t* written, cudaStream_t stream) {
    return with_key(key_width, [&](auto key) -> int {
        using Key = typename decltype(key)::type;
        decode_kernel<<<blocks_for(room, THREADS), THREADS, 0, stream>>>(
            static_cast<Encoding>(encoding), static_cast<Key*>(keys), room, found, written);
        return cudaGetLastError();
    });
}
