#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "kinema/nn/params.h"

namespace kinema::nn {

/// Fills one layer's tensor of sizes `dims` by its Init: a pure function of (seed, key), so it does
/// not depend on how layers are stacked. Row offsets must fit (check_row_offsets).
void initial_values(const Init& init, const Dims& dims, std::string_view key, uint64_t seed,
                    std::span<float> values);

/// Throws an Error unless there is one offset per row of a layer of sizes `dims`, or for each of
/// equal parts of its one axis.
void check_row_offsets(const Init& init, const Dims& dims, std::string_view key);

}  // namespace kinema::nn
