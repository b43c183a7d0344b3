#pragma once

#include "kinema/config/config.h"
#include "kinema/preparation/content_index.h"
#include "kinema/preparation/shard_folder.h"
#include "kinema/resolve/encoders.h"

namespace kinema::resolve {

/// What decides latents beside the clips, and text states beside the captions: of models the
/// contents of their folders, not their paths. Reads those that `models` does not know, and saves
/// it.
preparation::Settings pixels_settings(const config::Config& config,
                                      preparation::ContentIndex& models);
preparation::Settings text_settings(const config::Config& config, const TextWidths& widths,
                                    preparation::ContentIndex& models);

}  // namespace kinema::resolve
