// Maps signed and floating-point keys to unsigned integers of the same order, and back.
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

/// Returns the integer that sorts like the key with these bits. -0 becomes +0, and every NaN the same NaN, which
/// sorts after infinity.
template <class Bits>
__host__ __device__ inline Bits to_ordered(Encoding encoding, Bits bits) {
    constexpr Bits SIGN = Bits(1) << (sizeof(Bits) * 8 - 1);
    if (encoding == Encoding::Unsigned) return bits;
    if (encoding == Encoding::Signed) return bits ^ SIGN;
    if constexpr (sizeof(Bits) <= 8) {  // No float has 16 bytes.
        if ((bits & ~SIGN) > FloatBits<Bits>::INFINITE) bits = FloatBits<Bits>::NAN_BITS;
    }
    if (bits == SIGN) bits = 0;
    // Negative floats sort in the reverse order of their bits: flip all of them. Of others flip the sign only.
    return bits & SIGN ? ~bits : bits | SIGN;
}

/// Returns the bits of the key that `to_ordered` maps to this integer.
template <class Bits>
__host__ __device__ inline Bits from_ordered(Encoding encoding, Bits ordered) {
    constexpr Bits SIGN = Bits(1) << (sizeof(Bits) * 8 - 1);
    if (encoding == Encoding::Unsigned) return ordered;
    if (encoding == Encoding::Signed) return ordered ^ SIGN;
    return ordered & SIGN ? ordered & ~SIGN : ~ordered;
}

}  // namespace gpulsm
