#include "kinema/encoders/image_condition.h"

#include <algorithm>
#include <span>

#include "kinema/core/error.h"
#include "kinema/encoders/image_processor.h"

namespace kinema::encoders {
namespace {

/// f32 [3, F, H, W]: the given frames at their positions, zeros (mid-grey) elsewhere.
HostArray video_of(const ConditioningImages& images, const PixelSizes& sizes) {
  const int64_t frames = sizes.num_frames;
  HostArray out(Shape{DType::F32, {3, frames, sizes.height, sizes.width}});
  const int64_t plane = sizes.height * sizes.width;
  const auto put = [&](const HostArray& image, int64_t frame) {
    const HostArray pixels = autoencoder_pixels(image, sizes.height, sizes.width);
    for (int64_t c = 0; c < 3; ++c) {
      std::ranges::copy(pixels.as<float>().subspan(c * plane, plane),
                        out.as<float>().begin() + (c * frames + frame) * plane);
    }
  };
  put(images.first, 0);
  if (!images.last.bytes.empty()) {
    put(images.last, frames - 1);
  }
  return out;
}

/// Writes the mask [temporal, f, h, w] of latents [z, f, h, w]: 1 in every channel of the first
/// latent frame, which holds one given frame; with a given last frame, 1 in the last channel of the
/// last latent frame.
void write_mask(std::span<float> mask, const Dims& latents, int64_t temporal, bool last) {
  const int64_t frames = latents[1];
  const int64_t plane = latents[2] * latents[3];
  const auto set = [&](int64_t channel, int64_t frame) {
    std::fill_n(mask.begin() + (channel * frames + frame) * plane, plane, 1.0F);
  };
  for (int64_t channel = 0; channel < temporal; ++channel) {
    set(channel, 0);
  }
  if (last) {
    set(temporal - 1, frames - 1);
  }
}

}  // namespace

HostArray image_condition(const ConditioningImages& images, const PixelSizes& sizes,
                          const Autoencoder& autoencoder) {
  const bool last = !images.last.bytes.empty();
  check(!last || sizes.num_frames > 1,
        "[image] a video of one frame cannot begin and end with different images");
  const HostArray latents = autoencoder.encode(video_of(images, sizes));
  const int64_t temporal = autoencoder.layout().temporal;
  Dims dims = latents.shape.dims;
  dims[0] += temporal;
  HostArray out(Shape{DType::F32, dims});
  write_mask(out.as<float>(), latents.shape.dims, temporal, last);
  std::ranges::copy(latents.bytes, out.bytes.end() - static_cast<int64_t>(latents.bytes.size()));
  return out;
}

HostArray first_frame_latents(const HostArray& image, int64_t height, int64_t width,
                              const Autoencoder& autoencoder) {
  return autoencoder.encode(
      video_of({.first = image, .last = {}}, {.num_frames = 1, .height = height, .width = width}));
}

HostArray image_tokens(const ConditioningImages& images, const ImageEncoder& encoder) {
  HostArray out = encoder.encode(images.first);
  if (!images.last.bytes.empty()) {
    const HostArray last = encoder.encode(images.last);
    out.bytes.insert(out.bytes.end(), last.bytes.begin(), last.bytes.end());
    out.shape.dims[0] += last.shape.dims[0];
  }
  return out;
}

}  // namespace kinema::encoders
