#pragma once

#include <string>
#include <string_view>

/// Where a transformer has matrix products, for what is said of them by module.
namespace kinema::wan {

/// The path that MaxDiffusion's patterns (`qwix_module_path`) know a module by, from its key:
///
///     blocks.3.attn1.to_q -> blocks/3/attn1/query      blocks.{}.ffn.net.2 -> blocks/ffn/proj_out
std::string module_path(std::string_view key);

}  // namespace kinema::wan
