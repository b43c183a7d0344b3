#include "sample/sizes.h"

#include <algorithm>

#include "core/error.h"

namespace kinema::sample {
namespace {

int64_t cells(const char* what, int64_t pixels, int64_t cell, int64_t patch) {
  const int64_t unit = cell * patch;
  const int64_t below = std::max(pixels / unit, int64_t{1}) * unit;
  check(pixels > 0 && pixels % unit == 0,
        "[sample] {} is {}, expected a multiple of {} (latent cells of {} pixels, patches of {} "
        "cells)\n  {} and {} work",
        what, pixels, unit, cell, patch, below, below + unit);
  return pixels / cell;
}

}  // namespace

VideoSizes video_sizes(int64_t num_frames, int64_t height, int64_t width,
                       const encoders::LatentLayout& layout,
                       const std::array<int64_t, 3>& patch_size) {
  const int64_t first = layout.first_frame_alone ? 1 : 0;
  check(num_frames >= 1, "[sample] num_frames is {}, expected 1 or more", num_frames);
  int64_t latent_frames = (num_frames - first) / layout.temporal + first;
  latent_frames -= latent_frames % patch_size[0];
  check(latent_frames >= 1, "[sample] num_frames is {}, expected {} or more", num_frames,
        (patch_size[0] - first) * layout.temporal + first);
  return {.num_frames = (latent_frames - first) * layout.temporal + first,
          .height = height,
          .width = width,
          .latents = {layout.channels, latent_frames,
                      cells("height", height, layout.spatial, patch_size[1]),
                      cells("width", width, layout.spatial, patch_size[2])}};
}

}  // namespace kinema::sample
