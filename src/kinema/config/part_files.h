#pragma once

#include "kinema/config/config.h"

namespace kinema::config {

/// Converts vae_file and transformer_file to the keys that they stand for, and file names to paths
/// in comfyui_folder, of models and of `lora`: a name that is not a path here is searched in the
/// folders that ComfyUI searches for this kind of model, and in folders inside of them; it may also
/// name such a folder (`wan/high.safetensors`) and may lack its ending.
///
/// Throws an Error for two keys with different values, for a comfyui_folder without any of these
/// folders, and for a name that several files have.
void apply_part_files(Loaded& loaded);

/// The path of a checkpoint in ComfyUI's folder, by the same rules; the name itself for one that is
/// not found and has no ending. Throws the Errors of apply_part_files.
std::string checkpoint_in(const std::string& comfyui_folder, const std::string& name);

}  // namespace kinema::config
