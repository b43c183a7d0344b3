#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kinema/io/json.h"

/// Settings that other programs write into pictures, as keys of kinema.
namespace kinema::resolve {

struct ForeignSettings {
  io::Json keys;
  std::string model = {};                  // the checkpoint's name; empty: not known
  std::vector<std::string> not_read = {};  // names of settings that change the picture
};

/// The text `parameters` of AUTOMATIC1111's web UI (Forge, SD.Next, civitai): prompt, negative
/// prompt, and a line `Steps: 20, Sampler: Euler a, CFG scale: 7, Seed: 1, Size: 512x768`. The seed
/// gives other noise there. Throws an Error with `source` for text without such a line.
ForeignSettings settings_of_parameters(std::string_view text, const std::string& source);

/// The JSON `prompt` of ComfyUI, of graphs with one KSampler, two CLIPTextEncode,
/// EmptyLatentImage and CheckpointLoaderSimple. A seed of 64 bits loses its highest one. Throws an
/// Error with `source` and the node for other graphs.
ForeignSettings settings_of_comfyui(std::string_view text, const std::string& source);

}  // namespace kinema::resolve
