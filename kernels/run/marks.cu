// Marks a run that has no marks yet: all of its entries are live and stay where they are.
#include "dispatch.cuh"
#include "run/emit.cuh"

namespace gpulsm {

/// Keys play no part here: the last one of a tile is not looked at.
using NoKey = uint32_t;

/// Entries that a block marks.
constexpr uint64_t TILE = THREADS * ITEMS;

/// Writes the marks of a run, tile by tile, and its head's sum.
__global__ void __launch_bounds__(THREADS, 3)
mark_kernel(const uint8_t* shadows, Chain<NoKey> chain, Sector* marks, Head* head, PinnedHead* pinned_head) {
    __shared__ Tally<ITEMS, NoKey> tally;
    uint64_t first = chain.tile() * TILE, len = head->len;
    unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;

    // Load the shadows; the entries of a warp make one word of each plane.
    uint8_t bytes[ITEMS];
#pragma unroll
    for (int i = 0; i < ITEMS; i++) {
        uint64_t position = first + i * THREADS + threadIdx.x;
        bytes[i] = position < len ? shadows[position - chain.first() * TILE] : 0;
    }
    unsigned live[ITEMS], shadow[ITEMS];
#pragma unroll
    for (int i = 0; i < ITEMS; i++) {
        uint64_t position = first + i * THREADS + threadIdx.x;
        live[i] = __ballot_sync(~0u, position < len);
        shadow[i] = __ballot_sync(~0u, bytes[i] != 0);
        if (lane == 0) tally.counts[i * WARPS + warp] = pack_counts(live[i], live[i], shadow[i]);
    }
    __syncthreads();

    // Find the sum before this tile.
    if (warp == 0) {
        Totals<NoKey> mine = unpack_counts<NoKey>(exclusive_sum(tally.counts)), before = chain.look_back(mine);
        if (lane == 0) tally.before = before;
        if (lane == 0 && chain.is_last()) {
            head->sum = before.sum + mine.sum;
            publish(pinned_head, *head);
        }
    }
    __syncthreads();

    // Write whole sectors, also past the last entry: the sum over all entries is read there.
    uint64_t words = (len / SECTOR + 1) * (SECTOR / 32);
#pragma unroll
    for (int i = 0; i < ITEMS; i++) {
        uint64_t word = (first + i * THREADS) / 32 + warp;
        if (lane != 0 || word >= words) continue;
        Sector& sector = marks[word / SECTOR_WORDS];
        sector.live[word % SECTOR_WORDS] = live[i];
        sector.shadow[word % SECTOR_WORDS] = shadow[i];
        if (word % SECTOR_WORDS == 0) sector.sum = tally.before.sum + unpack_counts<NoKey>(tally.counts[i * WARPS + warp]).sum;
    }
}

uint64_t mark_tiles(uint64_t bound) { return (bound + SECTOR) / TILE + 1; }

}  // namespace gpulsm

using namespace gpulsm;

/// Returns the bytes of zeroed memory that `gpulsm_mark` needs.
extern "C" uint64_t gpulsm_mark_scratch(uint64_t bound) { return chain_bytes(sizeof(NoKey), mark_tiles(bound)); }

/// Returns what the parts of a run that are marked one after the other must begin at multiples of.
extern "C" uint64_t gpulsm_mark_tile() { return TILE; }

/// Marks entries of a run of at most `bound`: `entries` from `first` on, given one byte for each that is 1 if the entry is
/// a shadow. Earlier calls marked those before; the last one marks whatever is left, and writes the head's sum.
GPULSM_EXPORT gpulsm_mark(const uint8_t* shadows, uint64_t bound, uint64_t first, uint64_t entries, void* zeros,
                          const RunOutput<char, char>* out, cudaStream_t stream) {
    uint64_t tiles = mark_tiles(bound), from = first / TILE;
    uint64_t to = first + entries < bound ? from + entries / TILE : tiles;
    mark_kernel<<<static_cast<unsigned>(to - from), THREADS, 0, stream>>>(
        shadows, Chain<NoKey>(zeros, tiles, from), out->marks, out->head, out->pinned_head);
    return cudaGetLastError();
}
