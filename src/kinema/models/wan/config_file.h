#pragma once

#include "kinema/io/json.h"
#include "kinema/models/wan/config.h"

namespace kinema::wan {

/// `_class_name` of diffusers, and of the original release.
inline constexpr const char* kClassName = "WanTransformer3DModel";
inline constexpr const char* kVaceClassName = "WanVACETransformer3DModel";
inline constexpr const char* kAnimateClassName = "WanAnimateTransformer3DModel";
inline constexpr const char* kOriginalClassName = "WanModel";
inline constexpr const char* kOriginalVaceClassName = "VaceWanModel";
inline constexpr const char* kOriginalAnimateClassName = "WanAnimateModel";

/// The sizes of a diffusers `config.json`. Throws an Error with file and key for another class, a
/// missing, wrongly typed or unknown key, or invalid sizes.
TransformerConfig parse_config(const io::Json& json);

/// The reverse.
io::Json config_json(const TransformerConfig& config);

/// The release's own form of the configuration. Throws an Error for sizes that its names and shapes
/// cannot express: a head width other than kReleasedHead, which all released models have.
io::Json original_config_json(const TransformerConfig& config);
inline constexpr int64_t kReleasedHead = 128;

}  // namespace kinema::wan
