#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "core/host_array.h"
#include "data/space_to_depth.h"
#include "text/hashed.h"

namespace kinema::sample {

/// How pixels and latents correspond.
struct LatentLayout {
  int64_t channels = 16;
  int64_t spatial = 8;   // pixels a side of one latent cell
  int64_t temporal = 4;  // frames of one latent frame
  /// The first frame has a latent frame of its own (Wan's VAE): frames = temporal * k + 1. Else
  /// frames = temporal * k.
  bool first_frame_alone = true;
};

/// What turns latents into pixels.
class Autoencoder {
 public:
  virtual ~Autoencoder() = default;
  /// `space_to_depth`, for reports.
  virtual std::string name() const = 0;
  virtual LatentLayout layout() const = 0;
  /// f32 [c, f, h, w] as the transformer makes them -> f32 [3, F, H, W] in [-1, 1] (not clamped).
  virtual HostArray decode(const HostArray& latents) const = 0;
};

/// What turns prompts into the transformer's context.
class TextEncoder {
 public:
  virtual ~TextEncoder() = default;
  virtual std::string name() const = 0;
  /// f32 [t, d]; the same t for every prompt.
  virtual HostArray encode(const std::string& prompt) const = 0;
};

/// Pixel blocks as latents.
std::unique_ptr<Autoencoder> space_to_depth_autoencoder(const data::SpaceToDepth& settings);
/// Fixed random vectors for words.
std::unique_ptr<TextEncoder> hashed_text_encoder(const text::HashedEncoder& settings);

/// f32 [3, f, h, w] in [-1, 1] -> u8 [f, h, w, 3], clamped and rounded.
HostArray to_frames(const HostArray& pixels);

}  // namespace kinema::sample
