#pragma once

#include "kinema/io/json.h"
#include "kinema/models/wan/config.h"

namespace kinema::weights {

/// True when `_class_name` says so.
bool is_transformer(const io::Json& config);

/// The sizes of a `config.json`; throws as read_config does.
wan::TransformerConfig parse_config(const io::Json& json);

/// The reverse.
io::Json config_json(const wan::TransformerConfig& config);

}  // namespace kinema::weights
