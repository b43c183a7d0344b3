#include "kinema/encoders/clip_condition.h"

#include <algorithm>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/data/video_source.h"
#include "kinema/encoders/control_video.h"
#include "kinema/encoders/image_condition.h"
#include "kinema/encoders/masked_picture.h"

namespace kinema::encoders {
namespace {

using networks::MadeOf;

/// The condition of a control video, whose sizes are those of the clip.
HostArray control_of(const data::ClipControl& control, const PixelSizes& sizes,
                     const Autoencoder& autoencoder) {
  check(control.mask.bytes.empty() || !control.frames.bytes.empty(),
        "[data] the clip has a control_mask without the control video that it divides");
  ControlPixels pixels =
      control_pixels({.frames = {}, .mask = {}, .references = control.references}, sizes);
  if (!control.frames.bytes.empty()) {
    pixels.frames = control.frames;
  }
  if (!control.mask.bytes.empty()) {
    pixels.mask = control.mask;
  }
  return control_condition(pixels, autoencoder);
}

void check_control(const data::ClipControl& control) {
  check(!control.frames.bytes.empty(),
        "[data] the network follows a picture, but the clip has no `control` in its metadata\n  "
        "metadata.jsonl names it beside `file_name`: `control`, `source` or `conditioning_image`");
}

/// The channels of a network that fills in the clip's mask.
HostArray filled(MadeOf made_of, const HostArray& pixels, const data::ClipControl& control,
                 const PixelSizes& sizes, const Autoencoder& autoencoder) {
  check(
      !control.mask.bytes.empty(),
      "[data] the network fills in a masked part, but the clip has no mask\n  training_masks draws "
      "one, `control_mask` in its metadata names one");
  std::vector<float> made(control.mask.as<float>().begin(), control.mask.as<float>().end());
  made.resize(static_cast<size_t>(sizes.height * sizes.width));
  for (float& each : made) {
    each = each >= 0.5F ? 1.0F : 0.0F;
  }
  HostArray kept = autoencoder.encode(kept_pixels(pixels, made));
  kept.shape.dims.insert(kept.shape.dims.begin(), 1);
  HostArray out = fill_channels(made_of, made, sizes, kept);
  out.shape.dims.erase(out.shape.dims.begin());
  return out;
}

/// Latents [z, f, h, w] after the first `count` frames of the first channels of `condition`.
HostArray with_references(const HostArray& latents, const HostArray& condition, int64_t count) {
  Shape shape = latents.shape;
  const int64_t frame = shape.dims[2] * shape.dims[3] * static_cast<int64_t>(sizeof(float));
  const int64_t own = shape.dims[1];
  shape.dims[1] += count;
  HostArray out(shape);
  auto to = out.bytes.begin();
  for (int64_t c = 0; c < shape.dims[0]; ++c) {
    to = std::copy_n(condition.bytes.begin() + c * shape.dims[1] * frame, count * frame, to);
    to = std::copy_n(latents.bytes.begin() + c * own * frame, own * frame, to);
  }
  return out;
}

}  // namespace

data::Sample encode_clip(const HostArray& pixels, const data::ClipControl& control,
                         const ClipInput& wanted, const Autoencoder& autoencoder,
                         const ImageEncoder* image) {
  const networks::NamedInput* input = wanted.input;
  data::Sample out;
  out.latents = autoencoder.encode(pixels);
  if (input == nullptr) {
    return out;
  }
  const Dims& dims = pixels.shape.dims;
  const PixelSizes sizes{.num_frames = dims[1], .height = dims[2], .width = dims[3]};
  switch (input->made_of) {
    case MadeOf::FIRST_AND_LAST: {
      const ConditioningImages images{
          .first = data::frame(pixels, 0),
          .last = wanted.last_frame ? data::frame(pixels, dims[1] - 1) : HostArray()};
      out.condition = image_condition(images, sizes, autoencoder);
      if (image != nullptr) {
        out.image_states = image_tokens(images, *image);
      }
      return out;
    }
    case MadeOf::REFERENCE_IMAGE:
      check(
          control.references.empty(),
          "[data] the clip has `reference` in its metadata, but this network edits one picture\n  "
          "`source` names it");
      if (!control.frames.bytes.empty()) {
        out.condition = autoencoder.encode(control.frames);
      }
      return out;
    case MadeOf::CONTROL_VIDEO:
      out.condition = control_of(control, sizes, autoencoder);
      if (!control.references.empty()) {
        out.latents = with_references(out.latents, out.condition, std::ssize(control.references));
      }
      return out;
    case MadeOf::CONTROL_IMAGE:
      check_control(control);
      out.condition = autoencoder.encode(control.frames);
      return out;
    // Wan Fun is trained on control videos alone: what it may be shown of a first frame is zeros,
    // as in sampling without one.
    case MadeOf::CONTROL_AND_START:
    case MadeOf::CONTROL_AND_MASKED:
      check_control(control);
      out.condition = autoencoder.encode(control.frames);
      out.condition.shape.dims[0] = input->channels;
      out.condition.bytes.resize(static_cast<size_t>(out.condition.shape.bytes()));
      if (image != nullptr) {
        out.image_states = HostArray(image->shape());
      }
      return out;
    case MadeOf::MASK_AND_KEPT:
    case MadeOf::KEPT_AND_MASK:
      out.condition = filled(input->made_of, pixels, control, sizes, autoencoder);
      return out;
    case MadeOf::FIRST_IMAGE:
    case MadeOf::FOLLOWED_IMAGE:
    case MadeOf::FOLLOWED_AND_KEPT:
    case MadeOf::START:
    case MadeOf::REFERENCE_FRAME:
    case MadeOf::CAMERA_RAYS:
    case MadeOf::ANIMATED:
    case MadeOf::POSE_VIDEO:
    case MadeOf::FACE_VIDEO:
      break;
    case MadeOf::CONTROL_PICTURES:
      check_control(control);
      out.condition = control.frames;
      for (float& value : out.condition.as<float>()) {
        value = 0.5F * (value + 1.0F);
      }
      return out;
  }
  fail("[data] the network's input `{}` is not made of clips", input->name);
}

}  // namespace kinema::encoders
