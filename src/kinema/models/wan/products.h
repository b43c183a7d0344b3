#pragma once

#include <string>
#include <string_view>

/// Paths of the transformer's matrix products, for patterns that select them by module.
namespace kinema::wan {

/// The path of a module in MaxDiffusion's patterns (`qwix_module_path`), from its key:
///
///     blocks.3.attn1.to_q -> blocks/3/attn1/query      blocks.{}.ffn.net.2 -> blocks/ffn/proj_out
std::string module_path(std::string_view key);

}  // namespace kinema::wan
