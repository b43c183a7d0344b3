#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "nn/params.h"

namespace kinema::nn {

/// Fills one layer's tensor of sizes `dims` by its Init: a pure function of (seed, key), so it does
/// not depend on how layers are stacked. Throws an Error when row offsets do not fit.
void initial_values(const Init& init, const Dims& dims, std::string_view key, uint64_t seed,
                    std::span<float> values);

}  // namespace kinema::nn
