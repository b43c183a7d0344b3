#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "kinema/core/host_array.h"
#include "kinema/data/space_to_depth.h"

namespace kinema::encoders {

/// The relation between pixels and latents.
struct LatentLayout {
  int64_t channels = 16;
  int64_t spatial = 8;   // pixels per side of one latent cell
  int64_t temporal = 4;  // frames per latent frame
  /// The first frame has a separate latent frame (Wan's VAE): frames = temporal * k + 1. If false,
  /// frames = temporal * k.
  bool first_frame_alone = true;
};

/// Receives the parts of a video in order, f32 [3, k, H, W] in [-1, 1].
using FrameSink = std::function<void(const HostArray& pixels)>;

/// Converts between pixels and the latents that the transformer denoises.
class Autoencoder {
 public:
  virtual ~Autoencoder() = default;
  /// For reports: `space_to_depth`.
  virtual std::string name() const = 0;
  virtual LatentLayout layout() const = 0;
  /// f32 [3, F, H, W] in [-1, 1] -> f32 [c, f, h, w], normalised for the transformer; the mode, if
  /// the encoder predicts a distribution. Throws an Error with the sizes if they do not divide.
  virtual HostArray encode(const HostArray& pixels) const = 0;
  /// A sample of the distribution that the encoder predicts, normalised: mean + deviation * noise,
  /// with noise f32 [c, f, h, w]. Of an encoder without a distribution, the result of encode.
  virtual HostArray encode_sample(const HostArray& pixels, const HostArray& noise) const;
  /// f32 [c, f, h, w] -> the video, passed to `sink` in parts, so that a long one is never in
  /// memory completely.
  virtual void decode(const HostArray& latents, const FrameSink& sink) const = 0;
  /// Peak bytes of device memory for decoding latents of these dims [c, f, h, w], in addition to
  /// the values that are on the device already. Compiles the programs, loads nothing.
  virtual int64_t decode_memory_bytes(const Dims& /*latents*/) const { return 0; }
  /// Frees the memory of the parameters; the next encode or decode loads them again.
  virtual void release() const {}
  /// The complete video, f32 [3, F, H, W].
  HostArray decode(const HostArray& latents) const;
};

/// An autoencoder without weights: blocks of pixels are the latents.
std::unique_ptr<Autoencoder> space_to_depth_autoencoder(const data::SpaceToDepth& settings);

/// Clamps f32 values to [low, high]; NaN stays NaN.
void clamp(HostArray& x, float low, float high);

/// f32 [3, f, h, w] in [-1, 1] -> u8 [f, h, w, 3], clamped and rounded. Throws an Error for a NaN.
HostArray to_frames(const HostArray& pixels);

}  // namespace kinema::encoders
