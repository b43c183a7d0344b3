#pragma once

#include <cstdint>
#include <memory>

#include "kinema/core/dtype.h"
#include "kinema/data/source.h"

namespace kinema::data {

struct SyntheticOptions {
  int64_t height = 480;  // pixels
  int64_t width = 832;
  int64_t num_frames = 81;
  int64_t max_sequence_length = 512;
  int64_t text_embed_dim = 4096;
  int64_t num_channels_latents = 16;
  int64_t vae_scale_factor_spatial = 8;
  int64_t vae_scale_factor_temporal = 4;
  bool first_frame_alone = true;  ///< the first frame has a separate latent frame
  /// Samples before they repeat; 0: endless.
  int64_t num_samples = 0;
  /// For models with image conditioning: channels of the conditioning, CLIP's tokens and their
  /// width; 0: none.
  int64_t condition_channels = 0;
  int64_t condition_cell = 1;  // its rows and columns for each of the latents
  int64_t image_tokens = 0;
  int64_t image_dim = 0;
  /// For models with pooled text, and with the picture's sizes; 0, false: none.
  int64_t pooled_dim = 0;
  bool sizes = false;
  uint64_t seed = 0;
  DType dtype = DType::F32;
};

/// Latents [c, (frames - 1) / temporal + 1, height / spatial, width / spatial], text states and, if
/// requested, conditioning, image states and pooled text, all N(0, 1), a function of (seed,
/// position); sizes are those of an uncropped picture. Throws an Error if a size does not divide.
std::unique_ptr<Source> synthetic_source(const SyntheticOptions& options);

}  // namespace kinema::data
