// What the library tells Rust about itself: the layout of shared structures, the version of CUDA, the text of
// errors, and whether there is code for a device.
#include "abi.cuh"

#include <cuda_runtime.h>

#include <atomic>

#include <gpulsm/combine.cuh>
#include <gpulsm/keys.cuh>
#include <gpulsm/marks.cuh>
#include <gpulsm/view.cuh>

#include "dispatch.cuh"
#include "merge/sources.cuh"
#include "query/aggregate_output.cuh"
#include "query/asof_query.cuh"
#include "query/combine_queries.cuh"
#include "query/pairs_output.cuh"
#include "query/range_output.cuh"
#include "run/columns.cuh"
#include "run/emit.cuh"
#include "run/filter.cuh"
#include "update/numbers.cuh"
#include "update/shadows.cuh"

namespace {

// Structures hold pointers, never keys or values themselves: their layout is the same for all types.
using RunView = gpulsm::RunView<char, char>;
using View = gpulsm::View<char, char>;
using gpulsm::Combiner;
using gpulsm::Filters;
using gpulsm::Head;
using gpulsm::PinnedHead;
using gpulsm::Sector;
using RunOutput = gpulsm::RunOutput<char, char>;
using Source = gpulsm::Source<char, char>;
using Sources = gpulsm::Sources<char, char>;
using ShadowQueries = gpulsm::ShadowQueries<char>;
using RangeOutput = gpulsm::RangeOutput<char, char>;
using PairsOutput = gpulsm::PairsOutput<char, char>;
using CombineQueries = gpulsm::CombineQueries<char, char>;
using gpulsm::Fold;
using AggregateOutput = gpulsm::AggregateOutput<char, uint32_t>;
using gpulsm::AsOfQuery;
using gpulsm::KeyColumn;
using gpulsm::KeyColumns;

// clang-format off
constexpr gpulsm::AbiEntry ENTRIES[] = {
    GPULSM_ABI_STRUCT(RunView),
    GPULSM_ABI_FIELD(RunView, keys),
    GPULSM_ABI_FIELD(RunView, values),
    GPULSM_ABI_FIELD(RunView, marks),
    GPULSM_ABI_FIELD(RunView, inner),
    GPULSM_ABI_FIELD(RunView, outer),
    GPULSM_ABI_FIELD(RunView, head),

    GPULSM_ABI_STRUCT(View),
    GPULSM_ABI_FIELD(View, runs),
    GPULSM_ABI_FIELD(View, count),
    GPULSM_ABI_FIELD(View, combiner),

    GPULSM_ABI_STRUCT(Combiner),
    GPULSM_ABI_FIELD(Combiner, rule),
    GPULSM_ABI_FIELD(Combiner, encoding),
    GPULSM_ABI_FIELD(Combiner, width),

    GPULSM_ABI_STRUCT(Filters),
    GPULSM_ABI_FIELD(Filters, words),
    GPULSM_ABI_FIELD(Filters, len),
    GPULSM_ABI_FIELD(Filters, joint),
    GPULSM_ABI_FIELD(Filters, joint_len),
    GPULSM_ABI_FIELD(Filters, joint_runs),

    GPULSM_ABI_STRUCT(Head),
    GPULSM_ABI_FIELD(Head, len),
    GPULSM_ABI_FIELD(Head, sum),
    GPULSM_ABI_FIELD(Head, tombstones),

    GPULSM_ABI_STRUCT(PinnedHead),
    GPULSM_ABI_FIELD(PinnedHead, head),
    GPULSM_ABI_FIELD(PinnedHead, ready),

    GPULSM_ABI_STRUCT(Sector),
    GPULSM_ABI_FIELD(Sector, sum),
    GPULSM_ABI_FIELD(Sector, live),
    GPULSM_ABI_FIELD(Sector, shadow),

    GPULSM_ABI_STRUCT(RunOutput),
    GPULSM_ABI_FIELD(RunOutput, keys),
    GPULSM_ABI_FIELD(RunOutput, values),
    GPULSM_ABI_FIELD(RunOutput, marks),
    GPULSM_ABI_FIELD(RunOutput, inner),
    GPULSM_ABI_FIELD(RunOutput, outer),
    GPULSM_ABI_FIELD(RunOutput, head),
    GPULSM_ABI_FIELD(RunOutput, sectors),
    GPULSM_ABI_FIELD(RunOutput, pinned_head),
    GPULSM_ABI_FIELD(RunOutput, filter),
    GPULSM_ABI_FIELD(RunOutput, filter_len),

    GPULSM_ABI_STRUCT(Source),
    GPULSM_ABI_FIELD(Source, keys),
    GPULSM_ABI_FIELD(Source, values),
    GPULSM_ABI_FIELD(Source, marks),
    GPULSM_ABI_FIELD(Source, shadows),
    GPULSM_ABI_FIELD(Source, numbers),
    GPULSM_ABI_FIELD(Source, len),
    GPULSM_ABI_FIELD(Source, kind),

    GPULSM_ABI_STRUCT(Sources),
    GPULSM_ABI_FIELD(Sources, at),
    GPULSM_ABI_FIELD(Sources, tile),
    GPULSM_ABI_FIELD(Sources, tiles),
    GPULSM_ABI_FIELD(Sources, count),

    GPULSM_ABI_STRUCT(ShadowQueries),
    GPULSM_ABI_FIELD(ShadowQueries, keys),
    GPULSM_ABI_FIELD(ShadowQueries, len),
    GPULSM_ABI_FIELD(ShadowQueries, bound),
    GPULSM_ABI_FIELD(ShadowQueries, shadows),

    GPULSM_ABI_STRUCT(RangeOutput),
    GPULSM_ABI_FIELD(RangeOutput, len),
    GPULSM_ABI_FIELD(RangeOutput, offsets),
    GPULSM_ABI_FIELD(RangeOutput, windows),
    GPULSM_ABI_FIELD(RangeOutput, room),
    GPULSM_ABI_FIELD(RangeOutput, total),
    GPULSM_ABI_FIELD(RangeOutput, all),
    GPULSM_ABI_FIELD(RangeOutput, keys),
    GPULSM_ABI_FIELD(RangeOutput, values),
    GPULSM_ABI_FIELD(RangeOutput, flags),
    GPULSM_ABI_FIELD(RangeOutput, for_long),

    GPULSM_ABI_STRUCT(PairsOutput),
    GPULSM_ABI_FIELD(PairsOutput, keys),
    GPULSM_ABI_FIELD(PairsOutput, values),
    GPULSM_ABI_FIELD(PairsOutput, found),

    GPULSM_ABI_STRUCT(CombineQueries),
    GPULSM_ABI_FIELD(CombineQueries, keys),
    GPULSM_ABI_FIELD(CombineQueries, len),
    GPULSM_ABI_FIELD(CombineQueries, count),
    GPULSM_ABI_FIELD(CombineQueries, values),
    GPULSM_ABI_FIELD(CombineQueries, found),
    GPULSM_ABI_FIELD(CombineQueries, are_answers),

    GPULSM_ABI_STRUCT(Fold),
    GPULSM_ABI_FIELD(Fold, operation),
    GPULSM_ABI_FIELD(Fold, encoding),
    GPULSM_ABI_FIELD(Fold, width),

    GPULSM_ABI_STRUCT(AggregateOutput),
    GPULSM_ABI_FIELD(AggregateOutput, len),
    GPULSM_ABI_FIELD(AggregateOutput, windows),
    GPULSM_ABI_FIELD(AggregateOutput, counts),
    GPULSM_ABI_FIELD(AggregateOutput, answers),
    GPULSM_ABI_FIELD(AggregateOutput, fold),
    GPULSM_ABI_FIELD(AggregateOutput, scratch),

    GPULSM_ABI_STRUCT(AsOfQuery),
    GPULSM_ABI_FIELD(AsOfQuery, tolerance),
    GPULSM_ABI_FIELD(AsOfQuery, encoding),
    GPULSM_ABI_FIELD(AsOfQuery, bits),
    GPULSM_ABI_FIELD(AsOfQuery, is_forward),
    GPULSM_ABI_FIELD(AsOfQuery, is_strict),
    GPULSM_ABI_FIELD(AsOfQuery, has_tolerance),

    GPULSM_ABI_STRUCT(KeyColumn),
    GPULSM_ABI_FIELD(KeyColumn, data),
    GPULSM_ABI_FIELD(KeyColumn, width),
    GPULSM_ABI_FIELD(KeyColumn, encoding),
    GPULSM_ABI_FIELD(KeyColumn, below),

    GPULSM_ABI_STRUCT(KeyColumns),
    GPULSM_ABI_FIELD(KeyColumns, at),
    GPULSM_ABI_FIELD(KeyColumns, low),
    GPULSM_ABI_FIELD(KeyColumns, high),
    GPULSM_ABI_FIELD(KeyColumns, count),

    GPULSM_ABI_CONST(MAX_RUNS),
    GPULSM_ABI_CONST(MAX_PARTS),
    GPULSM_ABI_CONST(MAX_SOURCES),
    GPULSM_ABI_CONST(NODE),
    GPULSM_ABI_CONST(SECTOR),
    GPULSM_ABI_CONST(DELETE_FLAG),
    GPULSM_ABI_CONST(MAX_COLUMNS),
    GPULSM_ABI_CONST(BYTES),

    GPULSM_ABI_MEMBER(Mark, LIVE),
    GPULSM_ABI_MEMBER(Mark, SHADOW),
    GPULSM_ABI_MEMBER(SourceKind, Run),
    GPULSM_ABI_MEMBER(SourceKind, Inserts),
    GPULSM_ABI_MEMBER(SourceKind, Deletes),
    GPULSM_ABI_MEMBER(SourceKind, Mixed),
    GPULSM_ABI_MEMBER(SourceKind, Assigned),
    GPULSM_ABI_MEMBER(CutBy, Kernel),
    GPULSM_ABI_MEMBER(CutBy, Call),
    GPULSM_ABI_MEMBER(CutBy, Tiles),
    GPULSM_ABI_MEMBER(Combine, Replace),
    GPULSM_ABI_MEMBER(Combine, Add),
    GPULSM_ABI_MEMBER(Combine, Min),
    GPULSM_ABI_MEMBER(Combine, Max),
    GPULSM_ABI_MEMBER(Combine, Or),
    GPULSM_ABI_MEMBER(Combine, And),
    GPULSM_ABI_MEMBER(Combine, Xor),
    GPULSM_ABI_MEMBER(Encoding, Unsigned),
    GPULSM_ABI_MEMBER(Encoding, Signed),
    GPULSM_ABI_MEMBER(Encoding, Float),
    GPULSM_ABI_MEMBER(Operation, Sum),
    GPULSM_ABI_MEMBER(Operation, Min),
    GPULSM_ABI_MEMBER(Operation, Max),
};
// clang-format on

__global__ void probe_kernel() {}

}  // namespace

/// Points `entries` to the table of shared layouts and constants and returns its length.
extern "C" uint64_t gpulsm_abi(const gpulsm::AbiEntry** entries) {
    *entries = ENTRIES;
    return sizeof(ENTRIES) / sizeof(ENTRIES[0]);
}

bool gpulsm::can_launch_early() {
    // For each of the first devices: what is known of it.
    enum { UNKNOWN, LATE, EARLY };
    static std::atomic<int> known[64];
    int device = 0;
    if (cudaGetDevice(&device) != cudaSuccess || device >= 64) return false;
    if (known[device] == UNKNOWN) {
        // Code for older GPUs, which a later one can execute too, does not wait.
        cudaFuncAttributes attributes;
        bool found = cudaFuncGetAttributes(&attributes, probe_kernel) == cudaSuccess;
        known[device] = found && attributes.ptxVersion >= 90 ? EARLY : LATE;
    }
    return known[device] == EARLY;
}

/// Returns an error unless there is code for the current device.
GPULSM_EXPORT gpulsm_probe() {
    cudaFuncAttributes attributes;
    int error = cudaFuncGetAttributes(&attributes, probe_kernel);
    cudaGetLastError();  // Clears the error, so that the next call does not report it.
    return error;
}

/// Returns the version of CUDA this library was built with, as CUDA numbers them: 13000 is 13.0.
GPULSM_EXPORT gpulsm_cuda_version() { return CUDART_VERSION; }

/// Return the name and the description of an error that another function returned.
extern "C" const char* gpulsm_error_name(int error) { return cudaGetErrorName(static_cast<cudaError_t>(error)); }
extern "C" const char* gpulsm_error_text(int error) { return cudaGetErrorString(static_cast<cudaError_t>(error)); }
