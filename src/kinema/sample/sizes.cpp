#include "kinema/sample/sizes.h"

#include <algorithm>

#include "kinema/core/error.h"

namespace kinema::sample {
namespace {

/// Latent cells along a side.
int64_t cells(const char* what, int64_t pixels, int64_t cell, int64_t patch, int64_t most) {
  const int64_t unit = cell * patch;
  const int64_t below = std::max(pixels / unit, int64_t{1}) * unit;
  check(pixels > 0 && pixels % unit == 0,
        "[sample] {} is {}, expected a multiple of {} (latent cells of {} pixels, patches of {} "
        "cells)\n  {} and {} work",
        what, pixels, unit, cell, patch, below, below + unit);
  check(pixels / unit <= most,
        "[sample] {} is {}, but the model has positions for {} patches of {} pixels: at most {}",
        what, pixels, most, unit, most * unit);
  return pixels / cell;
}

/// Frames of `latent_frames` latent frames.
int64_t frames(int64_t latent_frames, const encoders::LatentLayout& layout) {
  const int64_t alone = layout.first_frame_alone ? 1 : 0;
  return (latent_frames - alone) * layout.temporal + alone;
}

}  // namespace

VideoSizes video_sizes(int64_t num_frames, int64_t height, int64_t width,
                       const encoders::LatentLayout& layout,
                       const std::array<int64_t, 3>& patch_size, int64_t most_patches) {
  check(num_frames >= 1, "[sample] num_frames is {}, expected 1 or more", num_frames);
  int64_t latent_frames = num_frames / layout.temporal + (layout.first_frame_alone ? 1 : 0);
  latent_frames -= latent_frames % patch_size[0];
  check(latent_frames >= 1, "[sample] num_frames is {}, expected {} or more", num_frames,
        frames(patch_size[0], layout));
  check(latent_frames / patch_size[0] <= most_patches,
        "[sample] num_frames is {}, but the model has positions for {} latent frames: at most {}",
        num_frames, most_patches * patch_size[0], frames(most_patches * patch_size[0], layout));
  return {.num_frames = frames(latent_frames, layout),
          .height = height,
          .width = width,
          .latents = {layout.channels, latent_frames,
                      cells("height", height, layout.spatial, patch_size[1], most_patches),
                      cells("width", width, layout.spatial, patch_size[2], most_patches)}};
}

}  // namespace kinema::sample
