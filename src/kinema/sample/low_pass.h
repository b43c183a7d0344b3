#pragma once

#include "kinema/graph/tensor.h"

namespace kinema::sample {

/// The low frequencies of each plane of x, f32 [..., h, w]: the quarter of its discrete Fourier
/// transform nearest to zero along each axis (rows k < h/4 and k > h - h/4; columns k < (w/2 + 1)/4
/// and their mirror images; at least k = 0 each).
///
/// The mask is a product of one for rows and one for columns, so the filter is two products with
/// small constant matrices, without a transform.
Tensor low_frequencies(Tensor x);

}  // namespace kinema::sample
