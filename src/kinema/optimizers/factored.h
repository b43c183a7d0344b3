#pragma once

#include <string>
#include <vector>

#include "kinema/optimizers/optimizer.h"

/// Means of squares that are stored factored over a tensor's last two axes (arXiv:1804.04235): row
/// means and column means, F32. Other axes, and layers of a stack, are separate tensors.
namespace kinema::optimizers {

/// True for tensors with at least two axes; others store all squares.
bool is_factored(const nn::ParamSpec& spec);
/// Specs NAME.SUFFIXrow and NAME.SUFFIXcol, or of all squares NAME.SUFFIX if they are not factored.
std::vector<nn::ParamSpec> factored_specs(const nn::ParamSpec& kept,
                                          const std::string& suffix = "");

/// Row and column means of squares, or the squares themselves if they are not factored.
std::vector<Tensor> factored(const nn::ParamSpec& spec, Tensor squares);
/// 1 / sqrt of the squares that these stand for: of row column / mean(row).
Tensor inverse_root(const nn::ParamSpec& spec, const std::vector<Tensor>& squares);

/// Root mean square per layer of a stack, with the axes of x.
Tensor rms_of_layer(const nn::ParamSpec& spec, Tensor x);

}  // namespace kinema::optimizers
