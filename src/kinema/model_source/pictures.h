#pragma once

#include <cstdint>

#include "kinema/config/config.h"
#include "kinema/networks/network.h"
#include "kinema/weights/family.h"

/// Configurations of models that make images: the keys of a video's size with an image's values.
namespace kinema::model_source {

/// What a model makes and takes of pictures.
struct Pictures {
  bool images = false;  // one frame
  bool sizes = false;   // it is told a picture's sizes
  int64_t side = 0;     // pixels, where nothing else is said
};

/// What a network that makes images is asked where nothing else is said: as its family is, with the
/// side that it was trained on where it says one (SDXL-Turbo: 512), as in diffusers.
weights::ImageDefaults image_defaults(const networks::Network& network);

Pictures pictures_of(const networks::Network& network);
/// Of the model that a configuration names, by its model_index.json or its network, here or not
/// yet.
Pictures pictures_of(const config::Loaded& loaded);

/// For a model that makes images: the configuration with num_frames, height and width of an image
/// where they were not given. Throws an Error where other frames were given.
config::Loaded with_image_keys(config::Loaded loaded, const Pictures& pictures);

}  // namespace kinema::model_source
