#include "kinema/sample/condition.h"

#include "kinema/core/error.h"

namespace kinema::sample {

ImageChannels image_channels(const networks::Sizes& network, const encoders::LatentLayout& layout) {
  const int64_t z = layout.channels;
  const int64_t more = network.in_channels - z;
  check(
      network.makes_images && network.out_channels == z &&
          (more == 0 || more == z + 1 || more == z || more == z + layout.spatial * layout.spatial),
      "[sample] the autoencoder makes {} channels, but the network takes {} and makes {}: they "
      "belong to different models",
      z, network.in_channels, network.out_channels);
  return more == 0       ? ImageChannels::NONE
         : more == z + 1 ? ImageChannels::MASK_AND_KEPT
         : more == z     ? ImageChannels::CONTROL
                         : ImageChannels::KEPT_AND_MASK;
}

Condition detect_condition(const networks::Sizes& network, const encoders::LatentLayout& layout,
                           bool expand_timesteps, const ConditioningImages& images) {
  const int64_t z = layout.channels;
  const int64_t with_image = 2 * z + layout.temporal;
  if (network.makes_images) {
    check(images.first.bytes.empty() && images.last.bytes.empty(),
          "[sample] a model that makes images starts from an image, which is no condition");
    return image_channels(network, layout) == ImageChannels::NONE ? Condition::NONE
                                                                  : Condition::CHANNELS;
  }
  check(
      network.out_channels == z && (network.in_channels == z || network.in_channels == with_image),
      "[sample] the autoencoder makes {} channels, but the transformer takes {} and makes {}\n"
      "  they belong to different models: {} -> {} (text) or {} -> {} (image) was expected",
      z, network.in_channels, network.out_channels, z, z, with_image, z);
  const bool first = !images.first.bytes.empty();
  const bool last = !images.last.bytes.empty();
  check(first || !last, "[sample] last_image_url is set, but image_url is not");
  if (network.in_channels == with_image) {
    check(first, "[sample] this model generates videos from images: set image_url=FILE");
    return Condition::CHANNELS;
  }
  check(!first || expand_timesteps,
        "[sample] this model generates videos from text: it starts from video=FILE, not from an "
        "image");
  check(!last, "[sample] this model takes a first image only: last_image_url must be empty");
  return first ? Condition::FIRST_FRAME : Condition::NONE;
}

void check_image_tokens(const networks::Sizes& network, bool has_encoder,
                        const ConditioningImages& images) {
  if (network.image_dim == 0) {
    return;
  }
  check(
      has_encoder,
      "[sample] the transformer needs CLIP's tokens of its image (image_dim {}), but the pipeline "
      "has no `image_encoder` with `image_processor`",
      network.image_dim);
  const bool last = !images.last.bytes.empty();
  if (network.takes_last_image) {
    check(last,
          "[sample] this model generates the video between two images: set last_image_url too");
  } else {
    check(!last, "[sample] this model takes a first image only: last_image_url must be empty");
  }
}

HostArray image_condition(Condition kind, const ConditioningImages& images, const VideoSizes& sizes,
                          const encoders::Autoencoder& autoencoder) {
  if (kind == Condition::NONE) {
    return {};
  }
  if (kind == Condition::FIRST_FRAME) {
    return encoders::first_frame_latents(images.first, sizes.height, sizes.width, autoencoder);
  }
  HostArray out = encoders::image_condition(
      images, {.num_frames = sizes.num_frames, .height = sizes.height, .width = sizes.width},
      autoencoder);
  Dims expected = sizes.latents;
  expected[0] += autoencoder.layout().temporal;
  check(out.shape.dims == expected,
        "[sample] the autoencoder {} made a condition {} of the image, expected f32{}",
        autoencoder.name(), to_string(out.shape), to_string(expected));
  return out;
}

}  // namespace kinema::sample
