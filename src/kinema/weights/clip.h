#pragma once

#include <string>

#include "kinema/io/model_folder.h"
#include "kinema/models/clip/config.h"

namespace kinema::weights {

/// True when the class of a `config.json` is CLIP's vision side, alone or with its projection.
bool is_clip_vision(const io::Json& config);

/// The sizes of a transformers `config.json` (its `vision_config` where it has one); throws an
/// Error naming file and key for a wrong class, a missing or wrongly typed key, or sizes that
/// cannot be.
clip::VisionConfig parse_clip_config(const io::Json& json);

/// Where the vision model's keys begin: `vision_model` (published checkpoints) or nothing (what
/// newer transformers save).
std::string clip_prefix(const io::ModelFolder& folder);

/// Checks that the folder's tensors are exactly those of its config; what other sides of CLIP add
/// (projection, position ids) is let pass. Throws an Error as check_folder does.
void check_clip_tensors(const io::ModelFolder& folder, const clip::VisionConfig& config);

}  // namespace kinema::weights
