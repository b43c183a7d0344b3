#pragma once

#include "kinema/graph/tensor.h"

namespace kinema::sample {

/// The low frequencies of each plane of x, f32 [..., h, w]: of its discrete Fourier transform, the
/// quarter nearest to zero along either axis (rows k < h/4 and k > h - h/4; columns k < (w/2 + 1)/4
/// and their mirror images; at least k = 0 each).
///
/// The mask is a product of one for rows and one for columns, so the filter is two products with
/// small constant matrices, and no transform is made.
Tensor low_frequencies(Tensor x);

}  // namespace kinema::sample
