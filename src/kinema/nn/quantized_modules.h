#pragma once

#include <span>
#include <string>
#include <string_view>

#include "kinema/nn/params.h"

/// Which of a network's matrix products are quantized: those of modules whose path matches
/// Quantization::module_path.
namespace kinema::nn {

/// The path that patterns know a module by, from its key: `blocks.{}.attn1.to_q`. A family's own.
using ModulePath = std::string (*)(std::string_view key);

QuantizedProducts quantized_products(const Quantization& quantization, ModulePath path);

/// Throws an Error naming the nearest path when no module of `keys` matches.
void check_module_path(const Quantization& quantization, std::span<const std::string> keys,
                       ModulePath path);

/// A key as it stands, `/` for its points; a stack's layers have no number.
std::string plain_module_path(std::string_view key);

}  // namespace kinema::nn
