// How two values of one key combine, in a dictionary whose inserts combine values.
//
// `src/combine.rs` has the same rules for Rust; `src/cuda/abi.rs` checks that their numbers agree.
#pragma once

#include <cstdint>
#include <cstring>

#include "keys.cuh"

namespace gpulsm {

/// What an insert does to a key that is already there.
enum class Combine : int { Replace, Add, Min, Max, Or, And, Xor };

/// A rule, and what values consist of: numbers of `width` bytes, and the meaning of their bits. The rule is an argument,
/// not a type: kernels are compiled once for each width of values.
struct Combiner {
    Combine rule;
    Encoding encoding;
    uint64_t width;

    /// Returns whether values combine; otherwise the newer one replaces the older one.
    __host__ __device__ bool combines() const { return rule != Combine::Replace; }

    /// Combines an older value with a newer one, number by number.
    template <class Value>
    __device__ __forceinline__ Value combine(const Value& older, const Value& newer) const {
        static_assert(sizeof(Value) % sizeof(uint32_t) == 0, "values that combine consist of numbers");
        constexpr int WORDS = sizeof(Value) / sizeof(uint32_t);
        uint32_t a[WORDS], b[WORDS];
        memcpy(a, &older, sizeof(Value));
        memcpy(b, &newer, sizeof(Value));
        if (width == sizeof(uint32_t)) {
#pragma unroll
            for (int i = 0; i < WORDS; i++) b[i] = number(a[i], b[i]);
        } else {
#pragma unroll
            for (int i = 0; i + 1 < WORDS; i += 2) {
                uint64_t both = number(wide(a[i], a[i + 1]), wide(b[i], b[i + 1]));
                b[i] = static_cast<uint32_t>(both);
                b[i + 1] = static_cast<uint32_t>(both >> 32);
            }
        }
        Value combined;
        memcpy(&combined, b, sizeof(Value));
        return combined;
    }

private:
    static __device__ uint64_t wide(uint32_t low, uint32_t high) { return static_cast<uint64_t>(high) << 32 | low; }

    static __device__ uint32_t add_floats(uint32_t a, uint32_t b) {
        return __float_as_uint(__fadd_rn(__uint_as_float(a), __uint_as_float(b)));
    }
    static __device__ uint64_t add_floats(uint64_t a, uint64_t b) {
        return __double_as_longlong(__dadd_rn(__longlong_as_double(a), __longlong_as_double(b)));
    }

    template <class Bits>
    __device__ __forceinline__ Bits number(Bits a, Bits b) const {
        switch (rule) {
            case Combine::Add: return encoding == Encoding::Float ? add_floats(a, b) : a + b;
            case Combine::Or: return a | b;
            case Combine::And: return a & b;
            case Combine::Xor: return a ^ b;
            case Combine::Replace: return b;
            default: break;
        }
        Bits x = to_ordered(encoding, a), y = to_ordered(encoding, b);
        return from_ordered(encoding, (x < y) == (rule == Combine::Min) ? x : y);
    }
};

}  // namespace gpulsm
