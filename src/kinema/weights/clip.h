#pragma once

#include <string>

#include "kinema/models/clip/config.h"
#include "kinema/weights/checkpoint.h"

namespace kinema::weights {

/// True when the class of a `config.json` is CLIP's vision side, alone or with its projection.
bool is_clip_vision(const io::Json& config);
/// True when it is CLIP's text side, alone or with its projection.
bool is_clip_text(const io::Json& config);

/// The sizes of a transformers `config.json` (its `vision_config` where it has one); throws an
/// Error naming file and key for a wrong class, a missing or wrongly typed key, or sizes that
/// cannot be.
clip::VisionConfig parse_clip_config(const io::Json& json);
/// The same of the text side (`text_config`). The class says whether there is a projection.
clip::TextConfig parse_clip_text_config(const io::Json& json);

/// The reverse, for what is saved.
io::Json clip_text_config_json(const clip::TextConfig& config);

/// The sizes of the text side in a folder or file: what its configuration says, else what the
/// shapes say, with heads of 64 channels and, by the names, the activation of the released models.
clip::TextConfig clip_text_config(const Checkpoint& files);

/// Where the vision model's keys begin: `vision_model` (published checkpoints) or nothing (what
/// newer transformers save).
std::string clip_prefix(const Checkpoint& files);
/// The same of the text model: `text_model` or nothing.
std::string clip_text_prefix(const Checkpoint& files);

/// The text model's embedding table.
const io::TensorView& clip_text_embedding(const Checkpoint& files);

/// Checks that the folder's tensors are exactly those of its config; what other sides of CLIP add
/// (projection, position ids) is let pass. Throws an Error as check_folder does.
void check_clip_tensors(const Checkpoint& files, const clip::VisionConfig& config);
void check_clip_text_tensors(const Checkpoint& files, const clip::TextConfig& config);

}  // namespace kinema::weights
