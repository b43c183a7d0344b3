#pragma once

#include <string>

#include "kinema/model_files/checkpoint.h"
#include "kinema/models/clip/config.h"

namespace kinema::weights {

/// True if the class of a `config.json` is CLIP's vision model, with or without a projection.
bool is_clip_vision(const io::Json& config);
/// True if it is CLIP's text model, with or without a projection.
bool is_clip_text(const io::Json& config);

/// The sizes of a transformers `config.json` (its `vision_config` if it has one); throws an Error
/// with file and key for another class, a missing or wrongly typed key, or invalid sizes.
clip::VisionConfig parse_clip_config(const io::Json& json);
/// The same for the text model (`text_config`). The class determines whether there is a projection.
clip::TextConfig parse_clip_text_config(const io::Json& json);

/// The reverse, for saving.
io::Json clip_text_config_json(const clip::TextConfig& config);

/// The sizes of the text model in a folder or file: from its configuration, else from its shapes;
/// then heads have 64 channels and the activation is that of the released model with such names. In
/// files of Stable Diffusion 2 the encoder has one layer more, which is not read.
clip::TextConfig clip_text_config(const model_files::Checkpoint& files);

/// The prefix of the vision model's keys: `vision_model` (published checkpoints) or empty (newer
/// transformers versions).
std::string clip_prefix(const model_files::Checkpoint& files);

/// SigLIP's vision model: its configuration (class SiglipVisionModel), the prefix of its keys, and
/// a check of its tensors, of which those of its pooling head are not read.
clip::VisionConfig parse_siglip_config(const io::Json& json);
std::string siglip_prefix(const model_files::Checkpoint& files);
void check_siglip_tensors(const model_files::Checkpoint& files, const clip::VisionConfig& config);
/// The same for the text model: `text_model` or empty.
std::string clip_text_prefix(const model_files::Checkpoint& files);

/// The text model's embedding table.
const io::TensorView& clip_text_embedding(const model_files::Checkpoint& files);

/// Checks that the folder's tensors are exactly those of its config; tensors of CLIP's other parts
/// (projection, position ids) are ignored. Throws an Error as check_folder does.
void check_clip_tensors(const model_files::Checkpoint& files, const clip::VisionConfig& config);
void check_clip_text_tensors(const model_files::Checkpoint& files, const clip::TextConfig& config);

}  // namespace kinema::weights
