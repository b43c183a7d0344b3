#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "kinema/core/host_array.h"
#include "kinema/data/space_to_depth.h"

namespace kinema::encoders {

/// How pixels and latents correspond.
struct LatentLayout {
  int64_t channels = 16;
  int64_t spatial = 8;   // pixels a side of one latent cell
  int64_t temporal = 4;  // frames of one latent frame
  /// The first frame has a latent frame of its own (Wan's VAE): frames = temporal * k + 1. Else
  /// frames = temporal * k.
  bool first_frame_alone = true;
};

/// Given pieces of a video in order, f32 [3, k, H, W] in [-1, 1].
using FrameSink = std::function<void(const HostArray& pixels)>;

/// Between pixels and the latents that the transformer works on.
class Autoencoder {
 public:
  virtual ~Autoencoder() = default;
  /// `space_to_depth`, for reports.
  virtual std::string name() const = 0;
  virtual LatentLayout layout() const = 0;
  /// f32 [3, F, H, W] in [-1, 1] -> f32 [c, f, h, w], normalised as the transformer wants them; of
  /// a distribution, its mode. Throws an Error naming the sizes when they do not divide.
  virtual HostArray encode(const HostArray& pixels) const = 0;
  /// f32 [c, f, h, w] -> the video, piece by piece, so that a long one is never whole in memory.
  virtual void decode(const HostArray& latents, const FrameSink& sink) const = 0;
  /// Bytes that decoding latents of these dims [c, f, h, w] would take of a device at its largest,
  /// beside what is there already; compiles the programs, and loads nothing.
  virtual int64_t decode_memory_bytes(const Dims& /*latents*/) const { return 0; }
  /// Gives the parameters' memory back; the next encode or decode loads them again.
  virtual void release() const {}
  /// The whole video, f32 [3, F, H, W].
  HostArray decode(const HostArray& latents) const;
};

/// Pixel blocks as latents.
std::unique_ptr<Autoencoder> space_to_depth_autoencoder(const data::SpaceToDepth& settings);

/// Limits f32 values to [low, high]; a NaN stays one.
void clamp(HostArray& x, float low, float high);

/// f32 [3, f, h, w] in [-1, 1] -> u8 [f, h, w, 3], clamped and rounded. Throws an Error for a NaN.
HostArray to_frames(const HostArray& pixels);

}  // namespace kinema::encoders
