// Combines values to their sum, minimum or maximum, whatever numbers they consist of.
#pragma once

#include <gpulsm/keys.cuh>

namespace gpulsm {

/// How values are combined.
enum class Operation : int { Sum, Min, Max };

/// An operation on values, and what they consist of: numbers of `width` bytes, and the meaning of their bits.
struct Fold {
    Operation operation;
    Encoding encoding;
    uint64_t width;

    __device__ bool adds_floats() const { return operation == Operation::Sum && encoding == Encoding::Float; }

    /// Returns what a number counts for: a sum's addend of 64 bits, or the integer that sorts like the number.
    __device__ __forceinline__ uint64_t term(uint32_t bits) const {
        if (operation != Operation::Sum) return to_ordered(encoding, bits);
        if (encoding == Encoding::Float) return __double_as_longlong(__uint_as_float(bits));
        return encoding == Encoding::Signed ? static_cast<int64_t>(static_cast<int32_t>(bits)) : bits;
    }
    __device__ __forceinline__ uint64_t term(uint64_t bits) const {
        return operation == Operation::Sum ? bits : to_ordered(encoding, bits);
    }

    __device__ __forceinline__ uint64_t combine(uint64_t a, uint64_t b) const {
        if (operation == Operation::Min) return min(a, b);
        if (operation == Operation::Max) return max(a, b);
        if (encoding != Encoding::Float) return a + b;
        return __double_as_longlong(__longlong_as_double(a) + __longlong_as_double(b));
    }

    /// Combines a number in global memory with others, in no particular order.
    __device__ void combine_into(uint64_t* to, uint64_t other) const {
        auto* total = reinterpret_cast<unsigned long long*>(to);
        if (operation == Operation::Min) atomicMin(total, other);
        else if (operation == Operation::Max) atomicMax(total, other);
        else if (encoding != Encoding::Float) atomicAdd(total, other);
        else atomicAdd(reinterpret_cast<double*>(to), __longlong_as_double(other));
    }

    /// Returns what combines with any term to that term.
    __device__ uint64_t identity() const { return operation == Operation::Min ? ~0ull : 0; }
};

/// The most numbers that a value consists of.
template <class Value>
constexpr int MAX_ELEMENTS = sizeof(Value) / sizeof(uint32_t);

/// What values are combined to, number by number.
template <class Value>
struct Folded {
    uint64_t totals[MAX_ELEMENTS<Value>];

    __device__ explicit Folded(const Fold& fold) {
#pragma unroll
        for (uint64_t& total : totals) total = fold.identity();
    }

    __device__ __forceinline__ void add(const Fold& fold, const Value& value) {
        constexpr int WORDS = MAX_ELEMENTS<Value>;
        if (fold.width == sizeof(uint32_t)) {
            auto words = reinterpret_cast<const uint32_t*>(&value);
#pragma unroll
            for (int i = 0; i < WORDS; i++) totals[i] = fold.combine(totals[i], fold.term(words[i]));
        } else if constexpr (WORDS > 1) {
            auto words = reinterpret_cast<const uint64_t*>(&value);
#pragma unroll
            for (int i = 0; i < WORDS / 2; i++) totals[i] = fold.combine(totals[i], fold.term(words[i]));
        }
    }

    __device__ __forceinline__ void add(const Fold& fold, const Folded& other) {
#pragma unroll
        for (int i = 0; i < MAX_ELEMENTS<Value>; i++) totals[i] = fold.combine(totals[i], other.totals[i]);
    }

    /// Combines those of `LANES` neighbours, in every lane. For whole warps.
    template <int LANES>
    __device__ __forceinline__ void add_lanes(const Fold& fold) {
#pragma unroll
        for (int step = LANES / 2; step > 0; step /= 2) {
#pragma unroll
            for (uint64_t& total : totals) total = fold.combine(total, __shfl_xor_sync(~0u, total, step));
        }
    }

    /// Combines those of all threads of a block, in the first thread; `of_warps` is shared memory.
    template <int BLOCK>
    __device__ void add_block(const Fold& fold, uint64_t (&of_warps)[BLOCK / 32][MAX_ELEMENTS<Value>]) {
        add_lanes<32>(fold);
        if (threadIdx.x % 32 == 0) {
#pragma unroll
            for (int i = 0; i < MAX_ELEMENTS<Value>; i++) of_warps[threadIdx.x / 32][i] = totals[i];
        }
        __syncthreads();
        for (int warp = 1; threadIdx.x == 0 && warp < BLOCK / 32; warp++) {
#pragma unroll
            for (int i = 0; i < MAX_ELEMENTS<Value>; i++) totals[i] = fold.combine(totals[i], of_warps[warp][i]);
        }
        __syncthreads();
    }

    /// Writes the answer of a range: zeros if it `is_empty`.
    __device__ void write(const Fold& fold, void* answers, uint64_t range, bool is_empty) const {
        int len = static_cast<int>(sizeof(Value) / fold.width);
#pragma unroll
        for (int i = 0; i < MAX_ELEMENTS<Value>; i++) {
            if (i >= len) continue;
            uint64_t at = range * len + i, total = is_empty ? 0 : totals[i];
            if (fold.operation == Operation::Sum) {
                static_cast<uint64_t*>(answers)[at] = total;
            } else if (fold.width == sizeof(uint32_t)) {
                uint32_t bits = from_ordered(fold.encoding, static_cast<uint32_t>(total));
                static_cast<uint32_t*>(answers)[at] = is_empty ? 0 : bits;
            } else {
                static_cast<uint64_t*>(answers)[at] = is_empty ? 0 : from_ordered(fold.encoding, total);
            }
        }
    }
};

}  // namespace gpulsm
