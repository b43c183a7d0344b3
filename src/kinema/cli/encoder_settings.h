#pragma once

#include <cstdint>

#include "kinema/config/config.h"
#include "kinema/preparation/shard_folder.h"

namespace kinema::cli {

/// What decides latents beside the clips, and text states beside the captions; `width` is that of
/// the text states.
preparation::Settings pixels_settings(const config::Config& config);
preparation::Settings text_settings(const config::Config& config, int64_t width);

/// The same for what is kept in dataset_save_location: by the contents of the models' folders, not
/// their paths.
preparation::Settings kept_pixels_settings(const config::Config& config);
preparation::Settings kept_text_settings(const config::Config& config, int64_t width);

}  // namespace kinema::cli
