#pragma once

#include "kinema/config/config.h"
#include "kinema/preparation/content_index.h"
#include "kinema/preparation/shard_folder.h"
#include "kinema/resolve/encoders.h"

namespace kinema::resolve {

/// The settings that determine latents (in addition to the clips) and text states (in addition to
/// the captions), with hashes of the models' contents instead of their paths. Reads models that
/// `models` does not have yet, and saves it.
preparation::Settings pixels_settings(const config::Config& config,
                                      preparation::ContentIndex& models);
preparation::Settings text_settings(const config::Config& config, const TextWidths& widths,
                                    preparation::ContentIndex& models);

}  // namespace kinema::resolve
