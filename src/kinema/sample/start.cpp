#include "kinema/sample/start.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <string_view>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/encoders/image_processor.h"
#include "kinema/encoders/masked_picture.h"
#include "kinema/media/blur.h"
#include "kinema/sample/latents.h"

namespace kinema::sample {
namespace {

/// Frame i, u8 [h, w, 3].
HostArray frame_of(const HostArray& frames, int64_t i) {
  HostArray out = take_rows(frames, {i});
  out.shape.dims.erase(out.shape.dims.begin());
  return out;
}

/// f32 [3, F, H, W] in [-1, 1], resized to the sizes of the request.
HostArray pixels_of(const HostArray& frames, const VideoSizes& sizes) {
  const int64_t count = sizes.num_frames;
  HostArray out(Shape{DType::F32, {3, count, sizes.height, sizes.width}});
  const int64_t plane = sizes.height * sizes.width;
  for (int64_t i = 0; i < count; ++i) {
    const HostArray pixels =
        encoders::autoencoder_pixels(frame_of(frames, i), sizes.height, sizes.width);
    for (int64_t c = 0; c < 3; ++c) {
      std::ranges::copy(pixels.as<float>().subspan(c * plane, plane),
                        out.as<float>().begin() + (c * count + i) * plane);
    }
  }
  return out;
}

/// The mask at the size of the frames, resized as a grey picture and rounded: 1 is made. [H W].
std::vector<float> pixel_mask(const HostArray& mask, const VideoSizes& sizes) {
  HostArray grey(Shape{DType::U8, {mask.shape.dims[0], mask.shape.dims[1], 3}});
  for (size_t i = 0; i < mask.bytes.size(); ++i) {
    std::fill_n(grey.bytes.begin() + static_cast<int64_t>(3 * i), 3, mask.bytes[i]);
  }
  const HostArray resized = encoders::autoencoder_pixels(grey, sizes.height, sizes.width);
  const auto values = resized.as<float>();
  std::vector<float> out(static_cast<size_t>(sizes.height * sizes.width));
  std::ranges::transform(values.first(out.size()), out.begin(),
                         [](float value) { return value >= 0.0F ? 1.0F : 0.0F; });
  return out;
}

/// Samples of the distribution of `pixels`, one per video: f32 [n, c, f, h, w].
HostArray samples_of(const HostArray& pixels, const HostArray& noise,
                     const encoders::Autoencoder& autoencoder) {
  HostArray out(noise.shape);
  auto to = out.bytes.begin();
  for (int64_t i = 0; i < noise.shape.dims[0]; ++i) {
    to = std::ranges::copy(autoencoder.encode_sample(pixels, frame_of(noise, i)).bytes, to).out;
  }
  return out;
}

/// signal x + noise eps
HostArray mixed(const HostArray& x, const HostArray& eps, const schedulers::Mix& mix) {
  HostArray out(x.shape);
  const auto from = x.as<float>();
  const auto drawn = eps.as<float>();
  std::ranges::transform(from, drawn, out.as<float>().begin(), [&](float data, float value) {
    return mix.signal * data + mix.noise * value;
  });
  return out;
}

}  // namespace

void check_start(const StartFrames& start) {
  const Dims& frames = start.frames.shape.dims;
  check(start.is_given() || !start.has_mask(), "[sample] there is a mask, but no image or video");
  if (!start.is_given()) {
    return;
  }
  check(start.frames.shape.dtype == DType::U8 && frames.size() == 4 && frames[3] == 3,
        "[sample] the frames to start from are {}, expected u8[f,h,w,3]",
        to_string(start.frames.shape));
  check(!start.has_mask() || (start.mask.shape.dtype == DType::U8 && start.mask.shape.rank() == 2),
        "[sample] the mask is {}, expected u8[h,w]", to_string(start.mask.shape));
  check(start.strength > 0.0 && start.strength <= 1.0,
        "[sample] strength is {}, expected a number above 0, at most 1", start.strength);
}

int64_t first_step(const schedulers::ScheduleConfig& schedule, int64_t num_inference_steps,
                   double strength) {
  const auto steps = static_cast<double>(num_inference_steps);
  const double first = schedule.even_sigmas ? std::floor(std::max(steps - steps * strength, 0.0))
                                            : steps - std::min(std::floor(steps * strength), steps);
  const auto out = static_cast<int64_t>(first);
  check(
      out < num_inference_steps,
      "[sample] strength {} of {} steps leaves no step\n  expected a strength of at least {:.3g}, "
      "or more steps",
      strength, num_inference_steps, 1.0 / steps);
  return out;
}

HostArray StartNoise::draw(const char* name, const Dims& dims) const {
  const std::string_view wanted = name;
  if (!file.empty() && (wanted == "noise" || has_latents(file, name))) {
    HostArray all = read_latents(file, all_videos, dims, has_latents(file, name) ? name : "");
    std::vector<int64_t> rows;
    for (int64_t i = 0; i < videos; ++i) {
      rows.push_back(first + i);
    }
    return take_rows(all, rows);
  }
  return initial_noise(seed, videos, dims, first_index,
                       wanted == "noise" ? kInitialLatents : wanted);
}

Start make_start(const StartFrames& given, const schedulers::Schedule& schedule,
                 const VideoSizes& sizes, const encoders::Autoencoder& autoencoder,
                 const StartNoise& noise, const networks::NamedInput* fills_input) {
  const bool takes_mask = fills_input != nullptr;
  // The reference's names of the draws.
  const bool fills = takes_mask && fills_input->made_of == networks::MadeOf::KEPT_AND_MASK;
  const char* const of_frames = fills ? "initial_vae_noise" : "vae_noise";
  const char* const of_kept = fills ? "vae_noise" : "masked_vae_noise";
  check(given.frames.shape.dims[0] >= sizes.num_frames,
        "[sample] the video has {} frames, but num_frames is {}", given.frames.shape.dims[0],
        sizes.num_frames);
  const HostArray pixels = pixels_of(given.frames, sizes);
  Start out;
  const HostArray drawn = noise.draw("noise", sizes.latents);
  const bool of_noise =
      given.has_mask() && given.strength == 1.0 && !schedulers::is_flow(schedule.config);
  if (!of_noise || !takes_mask) {
    out.clean = samples_of(pixels, noise.draw(of_frames, sizes.latents), autoencoder);
  }
  out.latents = of_noise ? mixed(drawn, drawn, {.signal = 0.0F, .noise = schedule.initial_scale})
                         : mixed(out.clean, drawn, schedule.mix(0));
  if (!given.has_mask()) {
    out.clean = {};
    return out;
  }
  const std::vector<float> made = pixel_mask(given.mask, sizes);
  const encoders::PixelSizes plain{
      .num_frames = sizes.num_frames, .height = sizes.height, .width = sizes.width};
  if (!takes_mask) {
    out.mask = encoders::latent_mask(made, plain, sizes.latents);
    out.noise = drawn;
    return out;
  }
  const HostArray kept = encoders::kept_pixels(pixels, made);
  HostArray latents;
  if (fills_input->made_of == networks::MadeOf::FOLLOWED_AND_KEPT) {
    latents = autoencoder.encode(kept);
    latents.shape.dims.insert(latents.shape.dims.begin(), 1);
  } else {
    latents = samples_of(kept, noise.draw(of_kept, sizes.latents), autoencoder);
  }
  out.condition = encoders::fill_channels(fills_input->made_of, made, plain, latents);
  out.clean = {};
  return out;
}

HostArray followed_latents(const HostArray& image, const VideoSizes& sizes,
                           const encoders::Autoencoder& autoencoder) {
  HostArray frame = image;
  frame.shape.dims.insert(frame.shape.dims.begin(), 1);
  return autoencoder.encode(pixels_of(frame, sizes));
}

HostArray control_latents(const HostArray& image, const VideoSizes& sizes,
                          const encoders::Autoencoder& autoencoder, const StartNoise& noise) {
  HostArray frame = image;
  frame.shape.dims.insert(frame.shape.dims.begin(), 1);
  return samples_of(pixels_of(frame, sizes), noise.draw("vae_noise", sizes.latents), autoencoder);
}

void return_kept_pixels(const StartFrames& given, const VideoSizes& sizes, HostArray& frames) {
  const HostArray kept = encoders::to_frames(pixels_of(given.frames, sizes));
  std::vector<float> made = pixel_mask(given.mask, sizes);
  if (given.mask_blur > 0.0) {
    made = media::gaussian_blur(made, sizes.height, sizes.width, given.mask_blur);
  }
  const auto from = kept.as<uint8_t>();
  const auto to = frames.as<uint8_t>();
  for (size_t i = 0; i < to.size(); ++i) {
    const float part = made[i / 3 % made.size()];
    to[i] = static_cast<uint8_t>(std::lround(part * static_cast<float>(to[i]) +
                                             (1.0F - part) * static_cast<float>(from[i])));
  }
}

}  // namespace kinema::sample
