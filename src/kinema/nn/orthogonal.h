#pragma once

#include "kinema/graph/tensor.h"

namespace kinema::nn {

/// The factor Q [m, n] of the reduced QR decomposition of a [m, n], n <= m, by Householder
/// reflections: orthonormal columns with the signs of LAPACK's geqrf, where a column's sign is
/// minus that of its pivot (the last column of a square matrix is not reflected). In a's dtype, f32
/// or f64; differentiable where a has full rank. The program has n steps: for few columns. Throws
/// an Error for other shapes. Source: G. Golub, C. Van Loan, "Matrix Computations",
/// algorithm 5.2.1.
Tensor orthogonal_columns(Tensor a);

}  // namespace kinema::nn
