#pragma once

#include <cstdint>

#include "config/config.h"
#include "prepare/shard_folder.h"

namespace kinema::runs {

/// What decides latents beside the clips, and text states beside the captions; `width` is that of
/// the text states.
prepare::Settings pixels_settings(const config::Config& config);
prepare::Settings text_settings(const config::Config& config, int64_t width);

/// The same for what is kept in dataset_save_location: by the contents of the models' folders, not
/// their paths.
prepare::Settings kept_pixels_settings(const config::Config& config);
prepare::Settings kept_text_settings(const config::Config& config, int64_t width);

}  // namespace kinema::runs
