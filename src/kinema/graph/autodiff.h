#pragma once

#include <span>
#include <vector>

#include "kinema/graph/tensor.h"

namespace kinema {

/// d loss / d wrt[i], each of the shape and dtype of wrt[i]; zeros where the loss does not depend
/// on it. `loss` must be a floating-point scalar. The results are ordinary graph code:
/// differentiable again.
std::vector<Tensor> gradients(Tensor loss, std::span<const Tensor> wrt);

/// The same from given cotangents of several outputs (empty Tensor: none); a result is empty where
/// no output depends on it.
std::vector<Tensor> pull_back(std::span<const Tensor> outputs, std::span<const Tensor> cotangents,
                              std::span<const Tensor> wrt);

}  // namespace kinema
