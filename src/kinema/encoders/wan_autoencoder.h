#pragma once

#include <filesystem>
#include <memory>
#include <optional>

#include "kinema/encoders/autoencoder.h"
#include "kinema/encoders/tiling.h"
#include "kinema/models/vae/coder.h"
#include "kinema/runtime/array.h"
#include "kinema/runtime/program.h"

namespace kinema::encoders {

struct WanAutoencoderOptions {
  vae::Options model;
  /// Frames encoded at once behind the first one, a multiple of the VAE's temporal factor; -1: all.
  /// Neither chunk changes the result.
  int64_t encode_chunk = 4;
  /// Latent frames decoded at once behind the first one; -1: all.
  int64_t decode_chunk = 1;
  /// Larger videos are cut into tiles that overlap; changes the result. None by default.
  std::optional<Tiling> tiling = {};
  /// Over a mesh: every device holds all parameters.
  bool replicate = false;
  /// Kernels of the target, compiler flags, and the folder of compiled programs.
  runtime::ProgramOptions program = {};
};

/// The VAE of Wan 2.1 or 2.2 on a device, or with frames split by columns over a mesh, from a
/// diffusers `vae` folder.
///
/// Videos pass in chunks. What a chunk leaves behind for the next stays on the device, in buffers
/// of fixed size, so memory does not grow with the number of frames (but for the host's own array
/// of pixels or latents). Programs are compiled for each size when it is first seen; parameters of
/// a side are loaded when it is first used, and again after release(). Safe to use from several
/// threads on one device, from one at a time over a mesh.
class WanAutoencoder final : public Autoencoder {
 public:
  /// Checks config and tensors of the folder; throws an Error naming what does not fit.
  WanAutoencoder(const runtime::Devices& devices, const std::filesystem::path& folder,
                 const WanAutoencoderOptions& options = {});
  ~WanAutoencoder() override;

  std::string name() const override { return "wan"; }
  LatentLayout layout() const override;
  const vae::Config& config() const;

  /// f32 [3, F, H, W] -> the normalised mean, f32 [z, f, h, w]. F = temporal * k + 1; H and W are
  /// multiples of the spatial factor.
  HostArray encode(const HostArray& pixels) const override;
  void decode(const HostArray& latents, const FrameSink& sink) const override;
  using Autoencoder::decode;
  int64_t decode_memory_bytes(const Dims& latents) const override;
  void release() const override;

  /// The distribution of the latents, not normalised: f32 [z, f, h, w] each.
  struct Moments {
    HostArray mean;
    HostArray logvar;  // clamped to [-30, 20]
  };
  Moments moments(const HostArray& pixels) const;
  /// (x - latents_mean) / latents_std for each channel of f32 [z, f, h, w], and back.
  HostArray normalise(const HostArray& latents) const;
  HostArray denormalise(const HostArray& latents) const;
  /// Decodes latents that are not normalised.
  void decode_denormalised(const HostArray& latents, const FrameSink& sink) const;

 private:
  class Network;
  std::unique_ptr<Network> network_;
};

}  // namespace kinema::encoders
