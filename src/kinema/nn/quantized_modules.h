#pragma once

#include <span>
#include <string>
#include <string_view>

#include "kinema/nn/params.h"

/// Which of a network's matrix products are quantized: those of modules whose path matches
/// Quantization::module_path.
namespace kinema::nn {

/// A module's path for patterns, from its key. An example is `blocks.{}.attn1.to_q`; each model
/// family has its own.
using ModulePath = std::string (*)(std::string_view key);

QuantizedProducts quantized_products(const Quantization& quantization, ModulePath path);

/// Throws an Error with the nearest path if no module of `keys` matches.
void check_module_path(const Quantization& quantization, std::span<const std::string> keys,
                       ModulePath path);

/// The key with `/` instead of dots and without the layer numbers of stacks.
std::string plain_module_path(std::string_view key);

}  // namespace kinema::nn
