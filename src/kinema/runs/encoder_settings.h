#pragma once

#include <cstdint>

#include "kinema/config/config.h"
#include "kinema/preparation/shard_folder.h"
#include "kinema/runs/encoders.h"

namespace kinema::runs {

/// What decides latents beside the clips, and text states beside the captions.
preparation::Settings pixels_settings(const config::Config& config);
preparation::Settings text_settings(const config::Config& config, const TextWidths& widths);

/// The same for what is kept in dataset_save_location: by the contents of the models' folders, not
/// their paths.
preparation::Settings kept_pixels_settings(const config::Config& config);
preparation::Settings kept_text_settings(const config::Config& config, const TextWidths& widths);

}  // namespace kinema::runs
