#pragma once

#include <string>

#include "kinema/io/json.h"
#include "kinema/models/t5/config.h"
#include "kinema/weights/checkpoint.h"

namespace kinema::weights {

/// True when the class of a `config.json` is the encoder of T5 or UMT5; where it names no class,
/// when its `model_type` is theirs.
bool is_t5(const io::Json& config);
/// `T5EncoderModel` or `UMT5EncoderModel`, for messages.
std::string t5_class(const t5::EncoderConfig& config);

/// The sizes of a transformers `config.json`; throws an Error naming file and key for a wrong
/// class, a missing or wrongly typed key, another activation (T5 before v1.1 has one), or sizes
/// that cannot be.
t5::EncoderConfig parse_t5_config(const io::Json& json);

/// The sizes of the encoder of T5 or UMT5 in a file: what a configuration beside it says, else what
/// the shapes say. Throws an Error naming the tensor that is missing or of another rank.
t5::EncoderConfig t5_config(const Checkpoint& files);
/// A transformers `config.json` of these sizes.
io::Json t5_config_json(const t5::EncoderConfig& config);
/// Whether a file's model is the encoder of T5 or UMT5.
bool is_t5_encoder(const Checkpoint& files);

/// The embedding table: `shared.weight`, or `encoder.embed_tokens.weight` where that is all there
/// is. Throws an Error when there is neither.
const io::TensorView& t5_embedding(const Checkpoint& files);

/// Checks that the tensors are exactly those of its config, the embedding once or under
/// both names. Throws an Error as check_folder does.
void check_t5_tensors(const Checkpoint& files, const t5::EncoderConfig& config);

}  // namespace kinema::weights
