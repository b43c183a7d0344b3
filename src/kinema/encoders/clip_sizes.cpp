#include "kinema/encoders/clip_sizes.h"

#include <fmt/format.h>

#include <string>

#include "kinema/core/error.h"

namespace kinema::encoders {
namespace {

/// Accepts values above 0 that are a multiple of `unit` plus `more` (less than `unit`).
void check_multiple(const char* key, int64_t value, int64_t unit, int64_t more,
                    const std::string& why) {
  const int64_t least = more > 0 ? more : unit;
  const int64_t below = value < least ? least : value - (value - more) % unit;
  check(value == below, "[config] {} is {}, expected {}a multiple of {} ({})\n  {}", key, value,
        more > 0 ? fmt::format("{} more than ", more) : "", unit, why,
        value < least ? fmt::format("{} works", least)
                      : fmt::format("{} and {} work", below, below + unit));
}

std::string cells(int64_t pixels, int64_t patch) {
  return patch == 1 ? fmt::format("latent cells of {} pixels", pixels)
                    : fmt::format("latent cells of {} pixels, patches of {} cells", pixels, patch);
}

void check_most(const char* key, int64_t value, int64_t most_patches, int64_t most) {
  check(most_patches == 0 || value <= most,
        "[config] {} is {}, but the model has positions for {} patches on an axis: at most {}", key,
        value, most_patches, most);
}

}  // namespace

void check_clip_sizes(int64_t num_frames, int64_t height, int64_t width, const LatentLayout& layout,
                      const std::array<int64_t, 3>& patch_size, int64_t most_patches) {
  check_most("height", height, most_patches, most_patches * layout.spatial * patch_size[1]);
  check_most("width", width, most_patches, most_patches * layout.spatial * patch_size[2]);
  check_most("num_frames", num_frames, most_patches,
             most_patches * layout.temporal * patch_size[0]);
  check_multiple("height", height, layout.spatial * patch_size[1], 0,
                 cells(layout.spatial, patch_size[1]));
  check_multiple("width", width, layout.spatial * patch_size[2], 0,
                 cells(layout.spatial, patch_size[2]));
  std::string why = fmt::format("latent frames of {}", layout.temporal);
  if (layout.first_frame_alone) {
    why += " after a first of one";
  }
  if (patch_size[0] > 1) {
    why += fmt::format(", patches of {} latent frames", patch_size[0]);
  }
  // p k latent frames are temporal (p k - 1) + 1 frames if the first has a separate latent frame.
  check_multiple("num_frames", num_frames, layout.temporal * patch_size[0],
                 layout.first_frame_alone ? layout.temporal * (patch_size[0] - 1) + 1 : 0, why);
}

}  // namespace kinema::encoders
