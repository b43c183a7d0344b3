#pragma once

#include <cstdint>

namespace kinema::kernels {

/// Whether this processor supports rounded_exponentials(): AVX512_BF16.
bool has_rounded_exponentials();

/// weights = e^(scores scale - largest), within 2^-16 before rounding to BF16, and 0 if below the
/// smallest normal number; returns the sum of the F32 weights.
float rounded_exponentials(const float* scores, int64_t n, float scale, float largest,
                           uint16_t* weights);

}  // namespace kinema::kernels
