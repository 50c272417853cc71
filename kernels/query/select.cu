// Selects the i-th pair in key order, by a thread per run or, over one run or more than 32, by one thread. Its value is
// that of the newest run that holds it; where values combine, `combine.cu` replaces it.
#include "dispatch.cuh"
#include "query/pairs_output.cuh"
#include "run/warp.cuh"

namespace gpulsm {

/// Returns the first position whose key is not less, which is likely within `spread` of `guess`.
template <class Key>
__device__ __forceinline__ uint64_t lower_bound_near(const Key* keys, uint64_t len, uint64_t guess, uint64_t spread,
                                                     Key key) {
    uint64_t start = guess - min(guess, spread), end = min(len, guess + spread);
    bool before = start > 0 && read_key(keys + start - 1) >= key, behind = end < len && read_key(keys + end) < key;
    if (before) end = start - 1, start = 0;
    else if (behind) start = end + 1, end = len;
    return start + lower_bound(keys + start, end - start, key);
}

/// Selects like `select` of `queries.cuh`, by `LANES` neighbours with one run each. The lane whose run holds the
/// pair gets its position and returns true.
template <int LANES, class Key, class Value>
__device__ bool select_by_lanes(const View<Key, Value>& view, uint64_t index, uint64_t& position) {
    unsigned lane = threadIdx.x % LANES;
    unsigned group = (LANES == 32 ? ~0u : (1u << LANES) - 1) << (threadIdx.x % 32 - lane);
    auto sum_of_group = [&](int64_t own) {
        for (int step = LANES / 2; step > 0; step /= 2) own += __shfl_xor_sync(group, own, step);
        return static_cast<uint64_t>(own);
    };
    bool has_run = lane < view.count;
    RunView<Key, Value> run = view.runs[has_run ? lane : 0];
    uint64_t start = 0, end = has_run ? length(run) : 0;
    // The numbers of keys less than the ends and the starts of the windows.
    uint64_t above = sum_of_group(has_run ? __ldg(&run.head->sum) : 0), below = 0;
    if (index >= above) return false;
    for (uint32_t round = 0;; round++) {
        uint64_t width = end - start, widest = width << 6 | lane;
        for (int step = LANES / 2; step > 0; step /= 2) widest = max(widest, __shfl_xor_sync(group, widest, step));
        if (widest >> 6 == 0) break;
        // Interpolate; after a few rounds bisect every other time.
        float even = __fdividef(index - below + 0.5f, above - below);
        float share = round > 3 && round % 2 ? 0.5f : min(even, 1.0f);
        float ahead = width * share, variance = max(ahead * (1 - share), 4.0f);
        uint64_t guess = width == 0 ? 0 : min(static_cast<uint64_t>(ahead), width - 1);
        Key pivot = width == 0 ? 0 : read_key(run.keys + start + guess);
        pivot = shuffle(group, pivot, widest & 63, LANES);
        uint64_t spread = static_cast<uint64_t>(4 * variance * rsqrtf(variance));
        uint64_t place = start + lower_bound_near(run.keys + start, width, guess, spread, pivot);
        uint64_t rank = sum_of_group(has_run ? sum_before(run.marks, place) : 0);
        if (rank > index) {
            end = place;
            above = rank;
            continue;
        }
        // Advance past the pivot in every run, so that it is never compared again.
        start = place + (place < end && read_key(run.keys + place) == pivot);
        below = sum_of_group(has_run ? sum_before(run.marks, start) : 0);
        if (below > index) break;  // The pivot itself is the key.
    }
    // The newest run decides: the first of those that have the largest key before their window.
    Key last = start > 0 ? read_key(run.keys + start - 1) : 0, largest = last;
    for (int step = LANES / 2; step > 0; step /= 2) {
        Key other = shuffle_across(group, largest, step);
        largest = other > largest ? other : largest;
    }
    unsigned having = __ballot_sync(group, start > 0 && last == largest);
    position = start - 1;
    return having != 0 && threadIdx.x % 32 == __ffs(having) - 1;
}

/// Selects with a thread for each run, up to `LANES` of them.
template <int LANES, class Key, class Value>
__global__ void __launch_bounds__(THREADS)
select_lanes_kernel(const __grid_constant__ View<Key, Value> view, const uint64_t* indices, uint64_t len,
                    PairsOutput<Key, Value> out) {
    uint64_t thread = blockIdx.x * static_cast<uint64_t>(THREADS) + threadIdx.x, at = thread / LANES;
    if (at >= len) return;
    uint64_t position, index = indices[at];
    if (thread % LANES == 0 && index >= gpulsm::len(view)) out.write(at, false, 0, zero<Value>());
    if (!select_by_lanes<LANES>(view, index, position)) return;
    const RunView<Key, Value>& run = view.runs[thread % LANES];
    out.write(at, true, read_key(run.keys + position), value_at(run.values, position));
}

/// Selects with one thread for all runs.
template <class Key, class Value>
__global__ void __launch_bounds__(THREADS)
select_kernel(const __grid_constant__ View<Key, Value> view, const uint64_t* indices, uint64_t len,
              PairsOutput<Key, Value> out) {
    uint64_t at = blockIdx.x * static_cast<uint64_t>(THREADS) + threadIdx.x;
    if (at >= len) return;
    Key key;
    uint64_t position;
    int run = find_index(view, indices[at], key, position);
    out.write(at, run >= 0, key, run >= 0 ? value_at(view.runs[run].values, position) : zero<Value>());
}

}  // namespace gpulsm

using namespace gpulsm;

/// Writes the pair at each index in key order.
GPULSM_EXPORT gpulsm_select(int key_width, int value_width, const View<char, char>* view, const uint64_t* indices,
                            uint64_t len, const PairsOutput<char, char>* out, cudaStream_t stream) {
    return with_pair(key_width, value_width, [&](auto key, auto value) -> int {
        using Key = typename decltype(key)::type;
        using Value = typename decltype(value)::type;
        const auto& to = reinterpret_cast<const PairsOutput<Key, Value>&>(*out);
        auto launch = [&](auto kernel, int lanes) {
            unsigned blocks = blocks_for(len * lanes, THREADS);
            kernel<<<blocks, THREADS, 0, stream>>>(typed<Key, Value>(*view), indices, len, to);
            return cudaGetLastError();
        };
        if (view->count <= 1 || view->count > 32) return launch(select_kernel<Key, Value>, 1);
        return view->count <= 8 ? launch(select_lanes_kernel<8, Key, Value>, 8)
                                : launch(select_lanes_kernel<32, Key, Value>, 32);
    });
}
