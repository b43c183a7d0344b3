#pragma once

#include <span>
#include <vector>

#include "kinema/graph/tensor.h"

namespace kinema {

/// d loss / d wrt[i], with the shape and dtype of wrt[i]; zeros if the loss does not depend on it.
/// `loss` must be a floating-point scalar, else an Error. The results are ordinary graph code that
/// can be differentiated again.
std::vector<Tensor> gradients(Tensor loss, std::span<const Tensor> wrt);

/// Vector-Jacobian product of several outputs with given cotangents (an empty Tensor: no
/// cotangent). A result is empty if no output depends on that tensor.
std::vector<Tensor> pull_back(std::span<const Tensor> outputs, std::span<const Tensor> cotangents,
                              std::span<const Tensor> wrt);

}  // namespace kinema
