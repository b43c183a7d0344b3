#pragma once

#include <filesystem>

#include "kinema/io/model_folder.h"
#include "kinema/models/umt5/config.h"

namespace kinema::weights {

/// True when the class of a `config.json` is UMT5's encoder, alone or with its decoder.
bool is_umt5(const io::Json& config);

/// The sizes of a transformers `config.json`; throws an Error naming file and key for a wrong
/// class, a missing or wrongly typed key, another activation, or sizes that cannot be.
umt5::EncoderConfig parse_umt5_config(const io::Json& json);

/// The embedding table: `shared.weight`, or `encoder.embed_tokens.weight` where that is all there
/// is. Throws an Error when there is neither.
const io::TensorView& umt5_embedding(const io::ModelFolder& folder);

/// Checks that the folder's tensors are exactly those of its config, the embedding once or under
/// both names. Throws an Error as check_folder does.
void check_umt5_tensors(const io::ModelFolder& folder, const umt5::EncoderConfig& config);

}  // namespace kinema::weights
