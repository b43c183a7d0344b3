#pragma once

#include <array>
#include <cstdint>
#include <filesystem>

#include "kinema/core/host_array.h"
#include "kinema/media/resample.h"

namespace kinema::encoders {

/// Preprocessing of an image for CLIP: transformers' `preprocessor_config.json`, with its names and
/// defaults.
struct ImageProcessor {
  bool do_resize = true;
  /// Size of the shorter edge, with the aspect ratio kept; if height and width are above 0, the
  /// size of both.
  int64_t shortest_edge = 224;
  int64_t height = 0, width = 0;
  media::Filter resample = media::Filter::Bicubic;
  /// transformers resizes with PIL, and from version 5 on with torchvision where that is installed,
  /// which gives some bytes another last bit.
  media::Rounding rounding = media::Rounding::PIL;
  bool do_center_crop = true;
  int64_t crop_height = 224, crop_width = 224;
  bool do_rescale = true;
  double rescale_factor = 1.0 / 255.0;
  bool do_normalize = true;
  std::array<float, 3> mean{0.48145466F, 0.4578275F, 0.40821073F};
  std::array<float, 3> std{0.26862954F, 0.26130258F, 0.27577711F};

  /// u8 [h, w, 3] of any size -> f32 [3, crop_height, crop_width]. The resize gives the same bytes
  /// as that of the library; an image smaller than the crop gets a black border.
  HostArray operator()(const HostArray& image) const;
};

/// Reads the `preprocessor_config.json` of a folder; throws an Error with file and key.
ImageProcessor read_image_processor(const std::filesystem::path& folder);

/// u8 [h, w, 3] -> f32 [3, height, width] in [-1, 1], resized with PIL's Lanczos filter without
/// keeping the aspect ratio: the reference's input of the autoencoder.
HostArray autoencoder_pixels(const HostArray& image, int64_t height, int64_t width);
/// The same of each frame of a video: u8 [f, h, w, 3] -> f32 [3, f, height, width].
HostArray video_pixels(const HostArray& frames, int64_t height, int64_t width);

}  // namespace kinema::encoders
