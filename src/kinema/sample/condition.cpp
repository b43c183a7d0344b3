#include "kinema/sample/condition.h"

#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <numeric>

#include "kinema/core/error.h"
#include "kinema/encoders/animate_condition.h"
#include "kinema/encoders/control_video.h"
#include "kinema/encoders/fun_condition.h"
#include "kinema/encoders/image_processor.h"
#include "kinema/encoders/reference_image.h"
#include "kinema/media/image.h"
#include "kinema/sample/control.h"
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
    case MadeOf::FOLLOWED_IMAGE:
    case MadeOf::REFERENCE_IMAGE:
      return z;
    case MadeOf::FOLLOWED_AND_KEPT:
      return 2 * z + 1;
    case MadeOf::CONTROL_VIDEO:
      return 2 * z + cell;
    case MadeOf::CONTROL_AND_START:
      return 2 * z;
    case MadeOf::CONTROL_AND_MASKED:
      return 2 * z + layout.temporal;
    case MadeOf::START:
    case MadeOf::REFERENCE_FRAME:
      return z;
    case MadeOf::CAMERA_RAYS:
      return 6 * layout.temporal;
    case MadeOf::ANIMATED:
      return layout.temporal + z;
    case MadeOf::POSE_VIDEO:
      return z;
    case MadeOf::FACE_VIDEO:
      return 3;
    case MadeOf::CONTROL_PICTURES:  // of any number
      return 0;
  }
  fail("[sample] unknown input {}", static_cast<int>(made_of));
}

/// Throws an Error unless each of the ControlNets has a picture.
void check_pictures(const std::vector<HostArray>& pictures, int64_t wanted) {
  check(std::ssize(pictures) == wanted,
        "[sample] there are {} control pictures, but the ControlNets follow {}\n  "
        "controlnet=MODEL and control_image=FILE belong together",
        pictures.size(), wanted);
  for (const HostArray& each : pictures) {
    check(each.shape.dtype == DType::U8 && each.shape.rank() == 3 && each.shape.dims[2] == 3,
          "[sample] the control picture is {}, expected u8[h,w,3]", to_string(each.shape));
  }
}

/// Throws an Error unless the files of a Wan-Animate model are given, of as many frames as poses.
void check_animation(const GivenFiles& files) {
  const Animation& a = files.animation;
  check(!files.images.first.bytes.empty(),
        "[sample] this model animates the character of a picture: set image=FILE");
  check(!a.poses.bytes.empty(),
        "[sample] this model follows drawn poses: set pose_video=FILE\n  Wan2.2's "
        "preprocess_data.py draws them (src_pose.mp4), and cuts out the faces (src_face.mp4)");
  check(!a.faces.bytes.empty(),
        "[sample] this model follows a face: set face_video=FILE\n  Wan2.2's preprocess_data.py "
        "cuts it out of the driving video (src_face.mp4)");
  check(a.mask.bytes.empty() || !a.background.bytes.empty(),
        "[sample] mask_video is given without the background_video in which it marks the person\n  "
        "set both to replace a person (src_bg.mp4, src_mask.mp4), or neither to animate the "
        "picture");
  check(
      a.background.bytes.empty() || !a.mask.bytes.empty(),
      "[sample] background_video is given without mask_video, which marks the person in it\n  set "
      "both to replace a person (src_bg.mp4, src_mask.mp4), or neither to animate the picture");
  const int64_t frames = a.poses.shape.dims.at(0);
  for (const auto& [key, video] : {std::pair{"face_video", &a.faces},
                                   {"background_video", &a.background},
                                   {"mask_video", &a.mask}}) {
    check(video->bytes.empty() || video->shape.dims.at(0) >= frames,
          "[sample] {} has {} frames, but pose_video {}\n  give a longer one, or set num_frames={}",
          key, video->shape.dims.empty() ? 0 : video->shape.dims[0], frames,
          video->shape.dims.empty() ? 0 : video->shape.dims[0]);
  }
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
    case MadeOf::FOLLOWED_IMAGE:
    case MadeOf::FOLLOWED_AND_KEPT:
      check(!files.control_image.bytes.empty(),
            "[sample] the ControlNet follows a control image: set control_image=FILE");
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
    case MadeOf::CONTROL_AND_START:
    case MadeOf::CONTROL_AND_MASKED:
      check(!files.control_video.bytes.empty(),
            "[sample] this model follows a control video: set control_video=FILE");
      return true;
    case MadeOf::START:
      return true;
    case MadeOf::REFERENCE_FRAME:
      check(files.references.size() <= 1,
            "[sample] there are {} reference pictures, but this model takes one",
            files.references.size());
      return true;
    case MadeOf::CAMERA_RAYS:
      fail("[sample] this model follows the path of a camera, which is not read from files");
    case MadeOf::ANIMATED:
      check_animation(files);
      return true;
    case MadeOf::POSE_VIDEO:
    case MadeOf::FACE_VIDEO:
      return true;
    case MadeOf::CONTROL_PICTURES:
      return true;  // check_used compares the numbers
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
            takes({MadeOf::FIRST_AND_LAST, MadeOf::FIRST_IMAGE, MadeOf::CONTROL_VIDEO,
                   MadeOf::CONTROL_AND_START, MadeOf::CONTROL_AND_MASKED, MadeOf::START,
                   MadeOf::ANIMATED}),
        "[sample] {}",
        network.makes_images
            ? "a model that makes images starts from an image, which is no condition"
            : "this model takes no first or last frame: image_url must be empty");
  check(files.control_image.bytes.empty() ||
            takes({MadeOf::CONTROL_IMAGE, MadeOf::FOLLOWED_IMAGE, MadeOf::FOLLOWED_AND_KEPT}),
        "[sample] this model follows no control image: control_image must be empty\n  models of "
        "Stable "
        "Diffusion follow one with controlnet=NET, FLUX.1 Canny and Depth on their own");
  check_pictures(files.control_pictures,
                 takes({MadeOf::CONTROL_PICTURES}) ? network.control_layers : 0);
  check(files.references.empty() ||
            takes({MadeOf::REFERENCE_IMAGE, MadeOf::CONTROL_VIDEO, MadeOf::REFERENCE_FRAME}),
        "[sample] this model takes no reference picture: reference_images must be empty");
  check(!files.animation.is_given() || takes({MadeOf::ANIMATED}),
        "[sample] this model follows no poses and faces: pose_video, face_video, background_video "
        "and "
        "mask_video must be empty\n  they belong to Wan2.2-Animate");
  check((files.control_video.bytes.empty() && files.control_mask.bytes.empty()) ||
            takes({MadeOf::CONTROL_VIDEO, MadeOf::CONTROL_AND_START, MadeOf::CONTROL_AND_MASKED}),
        "[sample] this model follows no control video: control_video and control_mask must be "
        "empty\n  Wan VACE and Wan Fun-Control follow one");
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

/// f32 [a, f, h, w] and [b, f, h, w] as [a + b, f, h, w].
HostArray joined_channels(HostArray first, const HostArray& second) {
  first.bytes.insert(first.bytes.end(), second.bytes.begin(), second.bytes.end());
  first.shape.dims[0] += second.shape.dims[0];
  return first;
}

HostArray reshaped(HostArray x, Dims dims) {
  x.shape.dims = std::move(dims);
  return x;
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

/// The conditions of a segment, f32 [n, channels, f, h, w]: one for all videos, or one for each,
/// which begin with frames of their own.
HostArray animated(const GivenFiles& files, const encoders::PixelSizes& sizes,
                   const encoders::Autoencoder& autoencoder, const SegmentPart& segment) {
  const Animation& animation = files.animation;
  encoders::AnimatedVideo given{
      .character = files.images.first, .background = {}, .mask = {}, .before = {}};
  if (!animation.background.bytes.empty()) {
    given.background =
        continued_frames(animation.background, segment.first_frame, sizes.num_frames);
    given.mask = continued_frames(animation.mask, segment.first_frame, sizes.num_frames);
  }
  HostArray out;
  for (size_t i = 0; i < std::max<size_t>(1, segment.before.size()); ++i) {
    if (!segment.before.empty()) {
      given.before = segment.before[i];
    }
    const HostArray one = with_batch(encoders::animate_condition(given, sizes, autoencoder));
    out.bytes.insert(out.bytes.end(), one.bytes.begin(), one.bytes.end());
    out.shape = one.shape;
    out.shape.dims[0] = static_cast<int64_t>(i) + 1;
  }
  return out;
}

/// As make_input, of any sizes.
HostArray made(const StepInput& step, const GivenFiles& files, const Start& start,
               const VideoSizes& sizes, const encoders::Autoencoder& autoencoder,
               const StartNoise& noise, const SegmentPart& segment) {
  const encoders::PixelSizes pixels{
      .num_frames = sizes.num_frames, .height = sizes.height, .width = sizes.width};
  switch (step.input.made_of) {
    case MadeOf::FIRST_AND_LAST:
      return with_batch(encoders::image_condition(files.images, pixels, autoencoder));
    case MadeOf::FIRST_IMAGE:
      return with_batch(encoders::first_frame_latents(files.images.first, sizes.height, sizes.width,
                                                      autoencoder));
    case MadeOf::MASK_AND_KEPT:
    case MadeOf::KEPT_AND_MASK:
      return start.condition;
    case MadeOf::CONTROL_IMAGE:
      return control_latents(files.control_image, sizes, autoencoder, noise);
    case MadeOf::FOLLOWED_IMAGE:
      return with_batch(followed_latents(files.control_image, sizes, autoencoder));
    case MadeOf::FOLLOWED_AND_KEPT: {
      const HostArray followed = followed_latents(files.control_image, sizes, autoencoder);
      Dims kept = followed.shape.dims;
      kept[0] += 1;
      return with_batch(joined_channels(followed, start.condition.bytes.empty()
                                                      ? HostArray(Shape{DType::F32, kept})
                                                      : reshaped(start.condition, kept)));
    }
    case MadeOf::REFERENCE_IMAGE: {
      const int64_t cell = autoencoder.layout().spatial;
      return with_batch(encoders::reference_latents(
          files.references.at(0), {.height = step.rows * cell, .width = step.columns * cell},
          autoencoder));
    }
    case MadeOf::CONTROL_VIDEO:
      return with_batch(
          encoders::control_condition(control_video(files, sizes), pixels, autoencoder));
    case MadeOf::CONTROL_AND_START:
      return with_batch(
          joined_channels(encoders::video_latents(files.control_video, pixels, autoencoder),
                          encoders::start_latents(files.images.first, pixels, autoencoder)));
    case MadeOf::CONTROL_AND_MASKED:
      return with_batch(
          joined_channels(encoders::video_latents(files.control_video, pixels, autoencoder),
                          encoders::optional_condition(files.images, pixels, autoencoder)));
    case MadeOf::START:
      return with_batch(encoders::start_latents(files.images.first, pixels, autoencoder));
    case MadeOf::REFERENCE_FRAME:
      return with_batch(encoders::frame_latents(
          files.references.empty() ? HostArray() : files.references.front(), pixels, autoencoder));
    case MadeOf::CAMERA_RAYS:
      break;  // is_given refuses it
    case MadeOf::ANIMATED:
      return animated(files, pixels, autoencoder, segment);
    case MadeOf::POSE_VIDEO:
      return with_batch(encoders::video_latents(
          continued_frames(files.animation.poses, segment.first_frame, sizes.num_frames), pixels,
          autoencoder));
    case MadeOf::FACE_VIDEO:
      return with_batch(encoders::video_pixels(
          continued_frames(files.animation.faces, segment.first_frame, sizes.num_frames),
          step.input.cell, step.input.cell));
    case MadeOf::CONTROL_PICTURES:
      return with_batch(control_pixels(files.control_pictures, sizes));
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
    fits &= input.made_of == MadeOf::CONTROL_PICTURES ||
            input.channels == channels_of(input.made_of, layout);
    in += input.entry == networks::Entry::CHANNELS ? input.channels : 0;
  }
  check(fits && network.in_channels == in,
        "[sample] the autoencoder {} makes {} channels, but the network takes {} and makes {}: "
        "they belong to different models\n  `kinema inspect FILE` says which",
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
  if (networks::find_entry(inputs, networks::Entry::POSES) != nullptr) {
    return 1;  // the character
  }
  return networks::find_entry(inputs, networks::Entry::BRANCH) == nullptr
             ? 0
             : std::ssize(files.references);
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
                     const StartNoise& noise, const SegmentPart& segment) {
  HostArray out = made(input, files, start, sizes, autoencoder, noise, segment);
  Dims latents = sizes.denoised();
  latents.insert(latents.begin(), out.shape.dims.at(0));
  const Dims expected = input.dims(latents);
  check(out.shape == Shape{DType::F32, expected},
        "[sample] the autoencoder {} made {} of the input `{}`, expected f32{}", autoencoder.name(),
        to_string(out.shape), input.input.name, to_string(expected));
  return out;
}

}  // namespace kinema::sample
