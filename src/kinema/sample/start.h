#pragma once

#include <cstdint>
#include <filesystem>

#include "kinema/core/host_array.h"
#include "kinema/encoders/autoencoder.h"
#include "kinema/networks/named_input.h"
#include "kinema/sample/mask_crop.h"
#include "kinema/sample/sizes.h"
#include "kinema/schedulers/schedule.h"

/// Image to image, video to video and inpainting: sampling that starts from given frames.
namespace kinema::sample {

/// The given frames of a request.
struct StartFrames {
  HostArray frames;        // u8 [f, h, w, 3] of any size; without bytes: sampling starts from noise
  HostArray mask;          // u8 [h, w] of any size: 255 is made, 0 kept; without bytes: all is made
  double strength = 1.0;   // the part of the steps that are run, above 0 and at most 1
  double mask_blur = 0.0;  // standard deviation in pixels, of the edge between made and kept pixels
  /// The whole picture, where `frames` and `mask` are a region of it.
  MaskCrop crop = {};
  bool returns_kept = true;  // kept pixels are those of the frames, not those of the decoder

  bool is_given() const { return !frames.bytes.empty(); }
  bool has_mask() const { return !mask.bytes.empty(); }
};

/// Throws an Error if the frames, the mask or the strength cannot be those of a request.
void check_start(const StartFrames& start);

/// The number of steps that are left out: of n steps the last floor(n strength) are run, or
/// ceil(n strength) for models with evenly spaced sigmas (Flux), as in diffusers. Throws an Error
/// if none is left.
int64_t first_step(const schedulers::ScheduleConfig& schedule, int64_t num_inference_steps,
                   double strength);

/// The noise of a request's videos.
struct StartNoise {
  uint64_t seed = 0;
  int64_t first_index = 0;  // of the first video of this process
  int64_t first = 0;        // the same within the request
  int64_t videos = 1;       // of this process
  int64_t all_videos = 1;   // of the request
  /// safetensors with some of `noise` (or `latents`), `vae_noise`, `masked_vae_noise` (of the kept
  /// part) and `initial_vae_noise` (of the frames, Flux Fill), f32 [n, c, f, h, w], which replace
  /// the seed's.
  std::filesystem::path file;

  /// The noise with this name, f32 [videos, c, f, h, w] for dims [c, f, h, w].
  HostArray draw(const char* name, const Dims& dims) const;
};

/// The first samples, and what later steps need of the given frames.
struct Start {
  HostArray latents;  // f32 [n, c, f, h, w]
  // With a mask, for networks that have no channels for it:
  HostArray clean;  // the latents of the given frames, as latents
  HostArray noise;  // with which they are mixed, as latents
  HostArray mask;   // f32 [1, 1, f, h, w]: 1 is made, 0 kept
  /// The kept part and the mask as channels, f32 [n, channels, f, h, w], or of all [1, ...].
  HostArray condition;
};

/// Encodes the frames, samples of the encoder's distribution, and mixes them with noise at the
/// schedule's first level. A masked start at full strength is noise alone unless the model is a
/// flow. Of a longer video the first frames are used. `fills`: the network's input that holds the
/// kept part and the mask; null if it has none. Throws an Error for a shorter video.
Start make_start(const StartFrames& given, const schedulers::Schedule& schedule,
                 const VideoSizes& sizes, const encoders::Autoencoder& autoencoder,
                 const StartNoise& noise, const networks::NamedInput* fills);

/// The channels of a control image, u8 [h, w, 3]: samples of its latents, f32 [n, c, f, h, w].
HostArray control_latents(const HostArray& image, const VideoSizes& sizes,
                          const encoders::Autoencoder& autoencoder, const StartNoise& noise);

/// The channels of a control image, u8 [h, w, 3], for a ControlNet: the mode of its latents, f32
/// [c, f, h, w].
HostArray followed_latents(const HostArray& image, const VideoSizes& sizes,
                           const encoders::Autoencoder& autoencoder);

/// Puts the kept pixels of `given`, resized to the result's sizes, into decoded frames u8 [f, h, w,
/// 3]. Where the blurred mask is between made and kept, both are mixed.
void return_kept_pixels(const StartFrames& given, const VideoSizes& sizes, HostArray& frames);

}  // namespace kinema::sample
