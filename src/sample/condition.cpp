#include "sample/condition.h"

#include <algorithm>

#include "core/error.h"
#include "encoders/image_processor.h"

namespace kinema::sample {
namespace {

/// f32 [3, F, H, W]: the given frames where they stand, zeros (mid-grey) elsewhere.
HostArray video_of(const GivenImages& images, const VideoSizes& sizes, int64_t frames) {
  HostArray out(Shape{DType::F32, {3, frames, sizes.height, sizes.width}});
  const int64_t plane = sizes.height * sizes.width;
  const auto put = [&](const HostArray& image, int64_t frame) {
    const HostArray pixels = encoders::autoencoder_pixels(image, sizes.height, sizes.width);
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

/// Writes the mask [temporal, f, h, w]: 1 for every channel of the first latent frame, since its
/// one frame is given; for a given last frame, 1 for the last channel of the last latent frame.
void write_mask(std::span<float> mask, const VideoSizes& sizes, int64_t temporal, bool last) {
  const int64_t frames = sizes.latents[1];
  const int64_t plane = sizes.latents[2] * sizes.latents[3];
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

Condition condition_of(const wan::TransformerConfig& config, const encoders::LatentLayout& layout,
                       bool expand_timesteps, const GivenImages& images) {
  const int64_t z = layout.channels;
  const int64_t with_image = 2 * z + layout.temporal;
  check(config.out_channels == z && (config.in_channels == z || config.in_channels == with_image),
        "[sample] the autoencoder makes {} channels, but the transformer takes {} and makes {}\n"
        "  they belong to different models: {} -> {} (text) or {} -> {} (image) was expected",
        z, config.in_channels, config.out_channels, z, z, with_image, z);
  const bool first = !images.first.bytes.empty();
  const bool last = !images.last.bytes.empty();
  check(first || !last, "[sample] there is a last image but no first one (image_url)");
  if (config.in_channels == with_image) {
    check(first, "[sample] this model makes videos of images: give one with image_url=FILE");
    return Condition::CHANNELS;
  }
  check(!first || expand_timesteps,
        "[sample] this model makes videos of text alone: image_url must be empty");
  check(!last, "[sample] this model takes a first image only: last_image_url must be empty");
  return first ? Condition::FIRST_FRAME : Condition::NONE;
}

void check_image_tokens(const wan::TransformerConfig& config, bool has_encoder,
                        const GivenImages& images) {
  if (config.image_dim == 0) {
    return;
  }
  check(has_encoder,
        "[sample] the transformer looks at its image through CLIP (image_dim {}), but the pipeline "
        "has no `image_encoder` with `image_processor`",
        config.image_dim);
  const bool last = !images.last.bytes.empty();
  if (config.pos_embed_seq_len > 0) {
    check(last, "[sample] this model makes the video between two images: give last_image_url too");
  } else {
    check(!last, "[sample] this model takes a first image only: last_image_url must be empty");
  }
}

HostArray image_condition(Condition kind, const GivenImages& images, const VideoSizes& sizes,
                          const encoders::Autoencoder& autoencoder) {
  if (kind == Condition::NONE) {
    return {};
  }
  if (kind == Condition::FIRST_FRAME) {
    return autoencoder.encode(video_of({.first = images.first}, sizes, 1));
  }
  const bool last = !images.last.bytes.empty();
  check(!last || sizes.num_frames > 1,
        "[sample] a video of one frame cannot begin and end with different images");
  const HostArray latents = autoencoder.encode(video_of(images, sizes, sizes.num_frames));
  check(latents.shape == Shape{DType::F32, sizes.latents},
        "[sample] the autoencoder {} made {} of the image, expected f32{}", autoencoder.name(),
        to_string(latents.shape), to_string(sizes.latents));
  const int64_t temporal = autoencoder.layout().temporal;
  Dims dims = sizes.latents;
  dims[0] += temporal;
  HostArray out(Shape{DType::F32, dims});
  write_mask(out.as<float>(), sizes, temporal, last);
  std::ranges::copy(latents.bytes, out.bytes.end() - static_cast<int64_t>(latents.bytes.size()));
  return out;
}

HostArray image_tokens(const GivenImages& images, const encoders::ImageEncoder& encoder) {
  HostArray out = encoder.encode(images.first);
  if (!images.last.bytes.empty()) {
    const HostArray last = encoder.encode(images.last);
    out.bytes.insert(out.bytes.end(), last.bytes.begin(), last.bytes.end());
    out.shape.dims[0] += last.shape.dims[0];
  }
  return out;
}

}  // namespace kinema::sample
