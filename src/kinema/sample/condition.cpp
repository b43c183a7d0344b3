#include "kinema/sample/condition.h"

#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <numeric>

#include "kinema/core/error.h"
#include "kinema/encoders/control_video.h"
#include "kinema/encoders/reference_image.h"
#include "kinema/media/image.h"
#include "kinema/sample/latents.h"

namespace kinema::sample {
namespace {

using networks::MadeOf;
using networks::NamedInput;

int64_t channels_of(MadeOf made_of, const encoders::LatentLayout& layout) {
  const int64_t z = layout.channels;
  const int64_t cell = layout.spatial * layout.spatial;
  switch (made_of) {
    case MadeOf::FIRST_AND_LAST:
      return layout.temporal + z;
    case MadeOf::MASK_AND_KEPT:
      return 1 + z;
    case MadeOf::KEPT_AND_MASK:
      return z + cell;
    case MadeOf::FIRST_IMAGE:
    case MadeOf::CONTROL_IMAGE:
    case MadeOf::REFERENCE_IMAGE:
      return z;
    case MadeOf::CONTROL_VIDEO:
      return 2 * z + cell;
  }
  fail("[sample] unknown input {}", static_cast<int>(made_of));
}

/// Whether the request gives the input. Throws an Error if one that the network needs is missing.
bool is_given(const NamedInput& input, bool expand_timesteps, const GivenFiles& files,
              const StartFrames& start) {
  const bool first = !files.images.first.bytes.empty();
  const bool last = !files.images.last.bytes.empty();
  switch (input.made_of) {
    case MadeOf::FIRST_AND_LAST:
      check(first, "[sample] this model generates videos from images: set image_url=FILE");
      return true;
    case MadeOf::FIRST_IMAGE:
      check(!first || expand_timesteps,
            "[sample] this model generates videos from text: it starts from video=FILE, not from "
            "an image");
      check(!last, "[sample] this model takes a first image only: last_image_url must be empty");
      return first;
    case MadeOf::MASK_AND_KEPT:
    case MadeOf::KEPT_AND_MASK:
      check(start.has_mask(),
            "[sample] this model fills in a masked part of an image: set image=FILE and mask=FILE");
      return true;
    case MadeOf::CONTROL_IMAGE:
      check(!files.control_image.bytes.empty(),
            "[sample] this model follows a control image: set control_image=FILE");
      check(!start.is_given(),
            "[sample] this model starts from noise and follows control_image: image must be empty");
      return true;
    case MadeOf::REFERENCE_IMAGE:
      check(files.references.size() <= 1,
            "[sample] there are {} reference pictures, but this model takes one",
            files.references.size());
      return !files.references.empty();
    case MadeOf::CONTROL_VIDEO:
      check(!start.is_given(),
            "[sample] this model starts from noise and follows control_video: video must be empty");
      check(!first || files.control_video.bytes.empty(),
            "[sample] control_video and a first frame are both given: the video has one");
      check(files.control_mask.bytes.empty() || !files.control_video.bytes.empty(),
            "[sample] control_mask is given without control_video");
      return true;
  }
  fail("[sample] unknown input {}", static_cast<int>(input.made_of));
}

/// Throws an Error for files of which no input of the network is made.
void check_used(const networks::Sizes& network, const GivenFiles& files) {
  const auto takes = [&](std::initializer_list<MadeOf> any) {
    return std::ranges::any_of(network.named, [&](const NamedInput& input) {
      return std::ranges::find(any, input.made_of) != any.end();
    });
  };
  check((files.images.first.bytes.empty() && files.images.last.bytes.empty()) ||
            takes({MadeOf::FIRST_AND_LAST, MadeOf::FIRST_IMAGE, MadeOf::CONTROL_VIDEO}),
        "[sample] {}",
        network.makes_images
            ? "a model that makes images starts from an image, which is no condition"
            : "this model takes no first or last frame: image_url must be empty");
  check(files.control_image.bytes.empty() || takes({MadeOf::CONTROL_IMAGE}),
        "[sample] this model follows no control image: control_image must be empty");
  check(files.references.empty() || takes({MadeOf::REFERENCE_IMAGE, MadeOf::CONTROL_VIDEO}),
        "[sample] this model takes no reference picture: reference_images must be empty");
  check((files.control_video.bytes.empty() && files.control_mask.bytes.empty()) ||
            takes({MadeOf::CONTROL_VIDEO}),
        "[sample] this model follows no control video: control_video and control_mask must be "
        "empty");
}

HostArray with_batch(HostArray one) {
  one.shape.dims.insert(one.shape.dims.begin(), 1);
  return one;
}

/// The first frames of u8 [f, ...]. Throws an Error if there are fewer.
HostArray first_frames(const HostArray& frames, int64_t count) {
  if (frames.bytes.empty()) {
    return {};
  }
  check(frames.shape.dims.at(0) >= count,
        "[sample] the control video or its mask has {} frames, but the result has {}\n"
        "  give a longer one, or set num_frames",
        frames.shape.dims[0], count);
  std::vector<int64_t> rows(static_cast<size_t>(count));
  std::iota(rows.begin(), rows.end(), 0);
  return take_rows(frames, rows);
}

/// The control video of a first and a last frame: grey between them, of which all is made.
encoders::ControlVideo between(const ConditioningImages& images, const VideoSizes& sizes) {
  constexpr uint8_t kGrey = 128;
  const int64_t frames = sizes.num_frames;
  encoders::ControlVideo out{
      .frames = HostArray(Shape{DType::U8, {frames, sizes.height, sizes.width, 3}}),
      .mask = HostArray(Shape{DType::U8, {frames, sizes.height, sizes.width}}),
      .references = {}};
  std::ranges::fill(out.frames.as<uint8_t>(), kGrey);
  std::ranges::fill(out.mask.as<uint8_t>(), uint8_t{255});
  const auto put = [&](const HostArray& image, int64_t frame) {
    const HostArray resized =
        media::resize_image(image, sizes.height, sizes.width, media::Filter::Lanczos);
    std::ranges::copy(resized.bytes, out.frames.bytes.begin() + frame * std::ssize(resized.bytes));
    const int64_t plane = sizes.height * sizes.width;
    std::fill_n(out.mask.bytes.begin() + frame * plane, plane, std::byte{0});
  };
  put(images.first, 0);
  if (!images.last.bytes.empty()) {
    check(frames > 1, "[sample] a video of one frame cannot begin and end with different images");
    put(images.last, frames - 1);
  }
  return out;
}

/// What the condition of a control branch is made of.
encoders::ControlVideo control_video(const GivenFiles& files, const VideoSizes& sizes) {
  encoders::ControlVideo out =
      files.images.first.bytes.empty()
          ? encoders::ControlVideo{.frames = first_frames(files.control_video, sizes.num_frames),
                                   .mask = first_frames(files.control_mask, sizes.num_frames),
                                   .references = {}}
          : between(files.images, sizes);
  out.references = files.references;
  return out;
}

/// As make_input, of any sizes.
HostArray made(const StepInput& step, const GivenFiles& files, const Start& start,
               const VideoSizes& sizes, const encoders::Autoencoder& autoencoder,
               const StartNoise& noise) {
  switch (step.input.made_of) {
    case MadeOf::FIRST_AND_LAST:
      return with_batch(encoders::image_condition(
          files.images,
          {.num_frames = sizes.num_frames, .height = sizes.height, .width = sizes.width},
          autoencoder));
    case MadeOf::FIRST_IMAGE:
      return with_batch(encoders::first_frame_latents(files.images.first, sizes.height, sizes.width,
                                                      autoencoder));
    case MadeOf::MASK_AND_KEPT:
    case MadeOf::KEPT_AND_MASK:
      return start.condition;
    case MadeOf::CONTROL_IMAGE:
      return control_latents(files.control_image, sizes, autoencoder, noise);
    case MadeOf::REFERENCE_IMAGE: {
      const int64_t cell = autoencoder.layout().spatial;
      return with_batch(encoders::reference_latents(
          files.references.at(0), {.height = step.rows * cell, .width = step.columns * cell},
          autoencoder));
    }
    case MadeOf::CONTROL_VIDEO:
      return with_batch(encoders::control_condition(
          control_video(files, sizes),
          {.num_frames = sizes.num_frames, .height = sizes.height, .width = sizes.width},
          autoencoder));
  }
  fail("[sample] unknown input {}", static_cast<int>(step.input.made_of));
}

}  // namespace

void check_channels(const networks::Sizes& network, const encoders::LatentLayout& layout,
                    const std::string& autoencoder) {
  const int64_t z = layout.channels;
  int64_t in = z;
  bool fits = network.out_channels == z;
  for (const NamedInput& input : network.named) {
    fits &= input.channels == channels_of(input.made_of, layout);
    in += input.entry == networks::Entry::CHANNELS ? input.channels : 0;
  }
  check(fits && network.in_channels == in,
        "[sample] the autoencoder {} makes {} channels, but the network takes {} and makes {}: "
        "they belong to different models",
        autoencoder, z, network.in_channels, network.out_channels);
}

std::vector<NamedInput> given_inputs(const networks::Sizes& network, bool expand_timesteps,
                                     const GivenFiles& files, const StartFrames& start) {
  check(!files.images.first.bytes.empty() || files.images.last.bytes.empty(),
        "[sample] last_image_url is set, but image_url is not");
  check_used(network, files);
  std::vector<NamedInput> out;
  std::ranges::copy_if(network.named, std::back_inserter(out), [&](const NamedInput& input) {
    return is_given(input, expand_timesteps, files, start);
  });
  return out;
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

int64_t reference_frames(const std::vector<NamedInput>& inputs, const GivenFiles& files) {
  return networks::find_entry(inputs, networks::Entry::BRANCH) == nullptr
             ? 0
             : std::ssize(files.references);
}

HostArray control_scale(const networks::Sizes& network, const GivenFiles& files) {
  const std::vector<double>& given = files.control_scale;
  const int64_t layers = network.control_layers;
  check(layers > 0 || given.empty(),
        "[sample] this model has no control branch: control_scale must be empty");
  check(given.size() <= 1 || std::ssize(given) == layers,
        "[sample] control_scale has {} numbers, expected one, or {}: one for each block of the "
        "control branch",
        given.size(), layers);
  if (layers == 0) {
    return {};
  }
  std::vector<float> out(static_cast<size_t>(layers),
                         given.empty() ? 1.0F : static_cast<float>(given[0]));
  if (given.size() > 1) {
    std::ranges::copy(given, out.begin());
  }
  return HostArray::f32({layers}, out);
}

StepInput step_input(const NamedInput& input, const networks::Sizes& network,
                     const GivenFiles& files, const encoders::LatentLayout& layout) {
  StepInput out{.input = input};
  if (input.entry == networks::Entry::TOKENS) {
    const Dims& dims = files.references.at(0).shape.dims;
    const encoders::PictureSize size = encoders::reference_size(
        dims[0], dims[1], files.resizes_references, layout.spatial * network.patch_size[1]);
    out.rows = size.height / layout.spatial;
    out.columns = size.width / layout.spatial;
  }
  return out;
}

HostArray make_input(const StepInput& input, const GivenFiles& files, const Start& start,
                     const VideoSizes& sizes, const encoders::Autoencoder& autoencoder,
                     const StartNoise& noise) {
  HostArray out = made(input, files, start, sizes, autoencoder, noise);
  Dims latents = sizes.denoised();
  latents.insert(latents.begin(), out.shape.dims.at(0));
  const Dims expected = input.dims(latents);
  check(out.shape == Shape{DType::F32, expected},
        "[sample] the autoencoder {} made {} of the input `{}`, expected f32{}", autoencoder.name(),
        to_string(out.shape), input.input.name, to_string(expected));
  return out;
}

}  // namespace kinema::sample
