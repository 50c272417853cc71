// The numbers of updates in a mixed batch, one with both inserts and deletes.
#pragma once

#include <cstdint>

namespace gpulsm {

/// The flag in the number of an update that deletes.
constexpr uint32_t DELETE_FLAG = 1u << 31;

}  // namespace gpulsm
