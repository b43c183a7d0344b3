#pragma once

#include <span>
#include <string>
#include <string_view>

#include "kinema/nn/params.h"

/// Where a transformer has matrix products, for what is said of them by module.
namespace kinema::wan {

/// The path that MaxDiffusion's patterns (`qwix_module_path`) know a module by, from its key:
///
///     blocks.3.attn1.to_q -> blocks/3/attn1/query      blocks.{}.ffn.net.2 -> blocks/ffn/proj_out
std::string module_path(std::string_view key);

/// The modules whose path matches are quantized.
nn::QuantizedProducts quantized_products(const nn::Quantization& quantization);

/// Throws an Error naming the nearest path when no module of `keys` matches.
void check_module_path(const nn::Quantization& quantization, std::span<const std::string> keys);

}  // namespace kinema::wan
