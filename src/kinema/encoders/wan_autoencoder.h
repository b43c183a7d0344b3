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
  /// Frames encoded together after the first frame, a multiple of the VAE's temporal factor; -1:
  /// all. The chunk sizes do not change the result.
  int64_t encode_chunk = 4;
  /// Latent frames decoded together after the first; -1: all.
  int64_t decode_chunk = 1;
  /// Larger videos are divided into overlapping tiles, which changes the result. Off by default.
  std::optional<Tiling> tiling = {};
  /// Over a mesh: every device has all parameters.
  bool replicate = false;
  /// Kernels of the target, compiler flags, and the folder of compiled programs.
  runtime::ProgramOptions program = {};
};

/// The VAE of Wan 2.1 or 2.2 from a diffusers `vae` folder, on one device or sharded by columns of
/// pixels over a mesh.
///
/// Videos are processed in chunks. The state between chunks stays on the device, in buffers of
/// fixed size, so device memory is independent of the number of frames (the host holds all pixels
/// or latents). Programs are compiled for each new size. The parameters of encoder and decoder are
/// loaded at first use, and again after release(). Thread-safe on one device; use one thread at a
/// time over a mesh.
class WanAutoencoder final : public Autoencoder {
 public:
  /// Checks config and tensors of the folder; throws an Error if something does not fit.
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

  /// The Gaussian of the unnormalised latents: f32 [z, f, h, w] each.
  struct Moments {
    HostArray mean;
    HostArray logvar;  // clamped to [-30, 20]
  };
  Moments moments(const HostArray& pixels) const;
  /// (x - latents_mean) / latents_std for each channel of f32 [z, f, h, w], and back.
  HostArray normalise(const HostArray& latents) const;
  HostArray denormalise(const HostArray& latents) const;
  /// Decodes unnormalised latents.
  void decode_denormalised(const HostArray& latents, const FrameSink& sink) const;

 private:
  class Network;
  std::unique_ptr<Network> network_;
};

}  // namespace kinema::encoders
