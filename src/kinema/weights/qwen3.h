#pragma once

#include <filesystem>

#include "kinema/io/json.h"
#include "kinema/model_files/checkpoint.h"
#include "kinema/models/qwen3/config.h"

namespace kinema::weights {

/// True if the class of a `config.json` is a Qwen3 language model; without a class, if its
/// `model_type` is.
bool is_qwen3(const io::Json& config);

/// The sizes of a transformers `config.json`, of versions 4 and 5; throws an Error with file and
/// key for another class, a missing or wrongly typed key, a scaled rotary embedding, a sliding
/// window, biases, or invalid sizes.
qwen3::EncoderConfig parse_qwen3_config(const io::Json& json);

/// The sizes of the Qwen3 in a folder or file: from the configuration next to it, else from
/// `config` (empty: none), else from the shapes. Throws an Error with the tensor that is missing or
/// of another rank.
qwen3::EncoderConfig qwen3_config(const model_files::Checkpoint& files,
                                  const std::filesystem::path& config = {});
/// A transformers `config.json` of these sizes, of the model without a head.
io::Json qwen3_config_json(const qwen3::EncoderConfig& config);
/// True if a file's model is a Qwen3 language model.
bool is_qwen3_encoder(const model_files::Checkpoint& files);

/// Checks that the tensors are those of the config. The last layer, the final norm and the head,
/// which an image model does not read, may be missing. Throws an Error as check_folder does.
void check_qwen3_tensors(const model_files::Checkpoint& files, const qwen3::EncoderConfig& config);

}  // namespace kinema::weights
