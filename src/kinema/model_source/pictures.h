#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "kinema/config/config.h"
#include "kinema/model_files/family.h"
#include "kinema/networks/network.h"

/// Configurations of image models: the keys of a video's size with an image's values.
namespace kinema::model_source {

/// The image properties of a model.
struct Pictures {
  bool images = false;  // it makes images: one frame
  bool sizes = false;   // its conditioning includes picture sizes, as in SDXL
  int64_t side = 0;     // default height and width, pixels
};

/// The defaults of an image network: its family's, with the side that it was trained on if its
/// config.json has one (SDXL-Turbo: 512), as in diffusers. `pipeline_class`: that of its pipeline,
/// if there is one. `schedule`: the model's, by which a distilled one is known.
model_files::ImageDefaults image_defaults(
    const networks::Network& network, std::string_view pipeline_class = {},
    const std::optional<schedulers::ScheduleConfig>& schedule = {});

/// The image properties of a network.
Pictures picture_settings(const networks::Network& network);
/// For the configuration's model, from its model_index.json or its network; it need not be
/// downloaded.
Pictures picture_settings(const config::Loaded& loaded);

/// For an image model: the configuration with num_frames, height and width of an image unless they
/// were given. Throws an Error if another num_frames was given.
config::Loaded with_image_keys(config::Loaded loaded, const Pictures& pictures);

}  // namespace kinema::model_source
