#pragma once

#include "kinema/io/json.h"
#include "kinema/models/wan/config.h"

namespace kinema::wan {

/// `_class_name` of diffusers, and of the original release.
inline constexpr const char* kClassName = "WanTransformer3DModel";
inline constexpr const char* kOriginalClassName = "WanModel";

/// The sizes of a diffusers `config.json`. Throws an Error naming file and key for a wrong class, a
/// missing, wrongly typed or unknown key, or sizes that cannot be.
TransformerConfig parse_config(const io::Json& json);

/// The reverse.
io::Json config_json(const TransformerConfig& config);

/// The release's own configuration of these sizes. Throws an Error where its names and shapes would
/// not tell them: heads of another width than every released model has (kReleasedHead).
io::Json original_config_json(const TransformerConfig& config);
inline constexpr int64_t kReleasedHead = 128;

}  // namespace kinema::wan
