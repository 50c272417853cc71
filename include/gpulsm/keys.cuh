// Signed and floating-point keys as the unsigned integers that sort the same way, and back.
#pragma once

#include <cstdint>

namespace gpulsm {

/// What the bits of a key mean.
enum class Encoding : int { Unsigned, Signed, Float };

template <class Bits>
struct FloatBits;

template <>
struct FloatBits<uint32_t> {
    static constexpr uint32_t INFINITE = 0x7f800000u, NAN_BITS = 0x7fc00000u;
};

template <>
struct FloatBits<uint64_t> {
    static constexpr uint64_t INFINITE = 0x7ff0000000000000ull, NAN_BITS = 0x7ff8000000000000ull;
};

/// The integer that sorts as the key with these bits does. -0 is +0, and every NaN is one NaN,
/// after infinity.
template <class Bits>
__host__ __device__ inline Bits to_ordered(Encoding encoding, Bits bits) {
    constexpr Bits SIGN = Bits(1) << (sizeof(Bits) * 8 - 1);
    if (encoding == Encoding::Unsigned) return bits;
    if (encoding == Encoding::Signed) return bits ^ SIGN;
    if ((bits & ~SIGN) > FloatBits<Bits>::INFINITE) bits = FloatBits<Bits>::NAN_BITS;
    if (bits == SIGN) bits = 0;
    // Negative floats grow downwards in their bits: flip them all; else only the sign.
    return bits & SIGN ? ~bits : bits | SIGN;
}

/// The bits of the key that `to_ordered` maps to this integer.
template <class Bits>
__host__ __device__ inline Bits from_ordered(Encoding encoding, Bits ordered) {
    constexpr Bits SIGN = Bits(1) << (sizeof(Bits) * 8 - 1);
    if (encoding == Encoding::Unsigned) return ordered;
    if (encoding == Encoding::Signed) return ordered ^ SIGN;
    return ordered & SIGN ? ordered & ~SIGN : ~ordered;
}

}  // namespace gpulsm
