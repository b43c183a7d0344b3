#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "kinema/nn/params.h"

namespace kinema::nn {

/// Fills one layer's tensor of sizes `dims` according to its Init. The values are a pure function
/// of (seed, key), so they do not depend on how layers are stacked. Row offsets must fit
/// (check_row_offsets).
void initial_values(const Init& init, const Dims& dims, std::string_view key, uint64_t seed,
                    std::span<float> values);

/// Throws an Error unless there is one offset per row of a layer of sizes `dims`, or, for a layer
/// with one axis, one for each of its equal parts.
void check_row_offsets(const Init& init, const Dims& dims, std::string_view key);

}  // namespace kinema::nn
