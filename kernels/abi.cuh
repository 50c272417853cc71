// The border with Rust: entry points, and the table that says how shared structures are laid out.
#pragma once

#include <cstddef>
#include <cstdint>

/// Declares an entry point that returns a `cudaError_t` to Rust.
#define GPULSM_EXPORT extern "C" int

namespace gpulsm {

/// A number that Rust and CUDA must agree on; `src/cuda/abi.rs` has the same structure.
struct AbiEntry {
    const char* name;
    uint64_t value;
};

}  // namespace gpulsm

/// Makes the table entries of a structure, of one of its fields, of a constant, and of an enumerator or static member.
#define GPULSM_ABI_STRUCT(type) {#type ".size", sizeof(type)}, {#type ".align", alignof(type)}
#define GPULSM_ABI_FIELD(type, field) \
    {#type "." #field ".offset", offsetof(type, field)}, {#type "." #field ".size", sizeof(type::field)}
#define GPULSM_ABI_CONST(name) {#name, static_cast<uint64_t>(gpulsm::name)}
#define GPULSM_ABI_MEMBER(type, name) {#type "." #name, static_cast<uint64_t>(gpulsm::type::name)}
