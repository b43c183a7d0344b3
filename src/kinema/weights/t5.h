#pragma once

#include <string>

#include "kinema/io/json.h"
#include "kinema/model_files/checkpoint.h"
#include "kinema/models/t5/config.h"

namespace kinema::weights {

/// True if the class of a `config.json` is the encoder of T5 or UMT5; without a class, if its
/// `model_type` is.
bool is_t5(const io::Json& config);
/// `T5EncoderModel` or `UMT5EncoderModel`, for messages.
std::string t5_class(const t5::EncoderConfig& config);

/// The sizes of a transformers `config.json`; throws an Error with file and key for another class,
/// a missing or wrongly typed key, another activation (as in T5 before v1.1), or invalid sizes.
t5::EncoderConfig parse_t5_config(const io::Json& json);

/// The sizes of the T5 or UMT5 encoder in a file: from a configuration next to it, else from the
/// shapes. Throws an Error with the tensor that is missing or of another rank.
t5::EncoderConfig t5_config(const model_files::Checkpoint& files);
/// A transformers `config.json` of these sizes.
io::Json t5_config_json(const t5::EncoderConfig& config);
/// True if a file's model is the encoder of T5 or UMT5.
bool is_t5_encoder(const model_files::Checkpoint& files);

/// The embedding table: `shared.weight`, else `encoder.embed_tokens.weight`. Throws an Error if it
/// has neither.
const io::TensorView& t5_embedding(const model_files::Checkpoint& files);

/// Checks that the tensors are exactly those of the config, with the embedding under one or both of
/// its names. Throws an Error as check_folder does.
void check_t5_tensors(const model_files::Checkpoint& files, const t5::EncoderConfig& config);

}  // namespace kinema::weights
