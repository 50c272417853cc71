// As-of queries: which pairs answer a question.
#pragma once

#include <cstdint>

#include <gpulsm/keys.cuh>
#include <gpulsm/wide.cuh>

namespace gpulsm {

/// What is asked of every question: the nearest pair that agrees with it in all parts but the last.
struct AsOfQuery {
    WideKey tolerance;  // the bits of a `double`, if the last part is a float
    Encoding encoding;  // of the last part
    int bits;           // of the last part, at most those of a key
    bool is_forward;    // whether the pairs found first are those after the questions
    bool is_strict;     // whether a pair with the question's own key is no answer
    bool has_tolerance;

    /// Returns the last part of a key, an integer, in the order of integers without a sign.
    template <class Key>
    __device__ Key integer(Key key) const {
        int unused = sizeof(Key) * 8 - bits;
        return static_cast<Key>(key << unused) >> unused;
    }

    /// Returns the last part of a key, a float.
    template <class Key>
    __device__ double number(Key key) const {
        if (bits == 32) return __uint_as_float(from_ordered(Encoding::Float, static_cast<uint32_t>(key)));
        return __longlong_as_double(from_ordered(Encoding::Float, static_cast<uint64_t>(key)));
    }

    /// Returns how far the last parts of two keys are apart, if they are integers.
    template <class Key>
    __device__ Key steps(Key key, Key other) const {
        Key a = integer(key), b = integer(other);
        return a < b ? b - a : a - b;
    }

    /// Returns how far they are apart, if they are floats: the difference as their own type rounds it.
    template <class Key>
    __device__ double difference(Key key, Key other) const {
        double a = number(key), b = number(other);
        return bits == 32 ? fabsf(static_cast<float>(a) - static_cast<float>(b)) : fabs(a - b);
    }

    /// Returns whether a key agrees with a question in all parts but the last.
    template <class Key>
    __device__ bool belongs(Key key, Key question) const {
        return bits == sizeof(Key) * 8 || (key ^ question) >> bits == 0;
    }

    /// Returns whether the last parts are near enough, and neither is NaN.
    template <class Key>
    __device__ bool is_near(Key key, Key question) const {
        if (encoding != Encoding::Float) return !has_tolerance || steps(key, question) <= tolerance;
        double a = number(key), b = number(question);
        if (a != a || b != b) return false;
        return !has_tolerance || difference(key, question) <= __longlong_as_double(static_cast<uint64_t>(tolerance));
    }

    /// Returns whether a key on one side answers a question. At the ends of a type there is no key beside the
    /// question: what was found instead is on the wrong side of it.
    template <class Key>
    __device__ bool matches(Key key, Key question, bool is_after) const {
        bool is_beside = is_after ? key >= question : key <= question;
        return is_beside && !(is_strict && key == question) && belongs(key, question) && is_near(key, question);
    }

    /// Returns whether the first key is nearer to a question than the second.
    template <class Key>
    __device__ bool is_nearer(Key key, Key other, Key question) const {
        if (encoding == Encoding::Float) return difference(key, question) < difference(other, question);
        return steps(key, question) < steps(other, question);
    }
};

}  // namespace gpulsm
