#include "kinema/encoders/clip_condition.h"

#include <algorithm>

#include "kinema/core/error.h"
#include "kinema/data/video_source.h"
#include "kinema/encoders/control_video.h"
#include "kinema/encoders/image_condition.h"

namespace kinema::encoders {
namespace {

using networks::MadeOf;

/// The condition of a control video, whose sizes are those of the clip.
HostArray control_of(const data::ClipControl& control, const PixelSizes& sizes,
                     const Autoencoder& autoencoder) {
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
                         const networks::NamedInput* input, const Autoencoder& autoencoder,
                         const ImageEncoder* image) {
  data::Sample out;
  out.latents = autoencoder.encode(pixels);
  if (input == nullptr) {
    return out;
  }
  const Dims& dims = pixels.shape.dims;
  const PixelSizes sizes{.num_frames = dims[1], .height = dims[2], .width = dims[3]};
  switch (input->made_of) {
    case MadeOf::FIRST_AND_LAST: {
      const ConditioningImages images{.first = data::first_frame(pixels), .last = {}};
      out.condition = image_condition(images, sizes, autoencoder);
      if (image != nullptr) {
        out.image_states = image_tokens(images, *image);
      }
      return out;
    }
    case MadeOf::REFERENCE_IMAGE:
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
    case MadeOf::FIRST_IMAGE:
    case MadeOf::MASK_AND_KEPT:
    case MadeOf::KEPT_AND_MASK:
    case MadeOf::CONTROL_IMAGE:
    case MadeOf::FOLLOWED_IMAGE:
    case MadeOf::FOLLOWED_AND_KEPT:
    case MadeOf::CONTROL_AND_START:
    case MadeOf::CONTROL_AND_MASKED:
    case MadeOf::START:
    case MadeOf::REFERENCE_FRAME:
    case MadeOf::CAMERA_RAYS:
    case MadeOf::ANIMATED:
    case MadeOf::POSE_VIDEO:
    case MadeOf::FACE_VIDEO:
    case MadeOf::CONTROL_PICTURES:
      break;
  }
  fail("[data] the network's input `{}` is not made of clips", input->name);
}

}  // namespace kinema::encoders
