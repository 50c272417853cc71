// As-of queries: what comes before and after the search for neighbours (nearest.cu).
#include "dispatch.cuh"
#include "query/asof_query.cuh"
#include "query/pairs_output.cuh"
#include "tuning.cuh"

namespace gpulsm {

/// Writes the next key on one side of each; at the end of the type, the key itself.
template <class Key>
__global__ void __launch_bounds__(THREADS) beside_kernel(bool is_forward, const Key* from, uint64_t len, Key* to) {
    uint64_t index = blockIdx.x * static_cast<uint64_t>(THREADS) + threadIdx.x;
    if (index >= len) return;
    Key key = from[index];
    to[index] = is_forward ? key + (key != ~Key(0)) : key - (key != 0);
}

/// Keeps, of the pairs found on one or both sides of each question, the one that answers it, or zeros.
template <class Key, class Value>
__global__ void __launch_bounds__(THREADS)
choose_kernel(AsOfQuery query, const Key* questions, uint64_t len, PairsOutput<Key, Value> pairs,
              PairsOutput<Key, Value> others) {
    uint64_t index = blockIdx.x * static_cast<uint64_t>(THREADS) + threadIdx.x;
    if (index >= len) return;
    Key question = questions[index];
    bool is_found = pairs.found[index] != 0;
    bool is_match = is_found && query.matches(pairs.keys[index], question, query.is_forward);
    if (others.keys != nullptr && others.found[index] != 0) {
        Key other = others.keys[index];
        bool is_other_match = query.matches(other, question, true);
        if (is_other_match && (!is_match || query.is_nearer(other, pairs.keys[index], question))) {
            Value value{};
            if constexpr (sizeof(Value) > 1) value = others.values[index];
            return pairs.write(index, true, other, value);
        }
    }
    if (is_found && !is_match) pairs.write(index, false, 0, Value{});
}

}  // namespace gpulsm

using namespace gpulsm;

/// Writes the next key on one side of each of `len` keys; at the end of the type, the key itself.
GPULSM_EXPORT gpulsm_beside(int key_width, bool is_forward, const void* from, uint64_t len, void* to,
                            cudaStream_t stream) {
    return with_key(key_width, [&](auto key) -> int {
        using Key = typename decltype(key)::type;
        beside_kernel<<<blocks_for(len, THREADS), THREADS, 0, stream>>>(is_forward, static_cast<const Key*>(from), len,
                                                                         static_cast<Key*>(to));
        return cudaGetLastError();
    });
}

/// Keeps, of the `pairs` found on one side of each of `len` questions, those that answer it. If `others` has keys,
/// they are those after the questions, and of two answers the nearer is kept; of two as near, the one of `pairs`.
GPULSM_EXPORT gpulsm_choose(int key_width, int value_width, const AsOfQuery* query, const void* questions,
                            uint64_t len, const PairsOutput<char, char>* pairs, const PairsOutput<char, char>* others,
                            cudaStream_t stream) {
    return with_pair(key_width, value_width, [&](auto key, auto value) -> int {
        using Key = typename decltype(key)::type;
        using Value = typename decltype(value)::type;
        using Output = PairsOutput<Key, Value>;
        choose_kernel<<<blocks_for(len, THREADS), THREADS, 0, stream>>>(
            *query, static_cast<const Key*>(questions), len, reinterpret_cast<const Output&>(*pairs),
            reinterpret_cast<const Output&>(*others));
        return cudaGetLastError();
    });
}
