#pragma once

#include <filesystem>
#include <memory>
#include <optional>

#include "kinema/encoders/autoencoder.h"
#include "kinema/encoders/tiling.h"
#include "kinema/models/kl_autoencoder/coder.h"
#include "kinema/runtime/array.h"
#include "kinema/runtime/program.h"

namespace kinema::encoders {

struct KlAutoencoderOptions {
  kl_autoencoder::CoderOptions model;
  /// The scale of latents of the network's family, for a file without a configuration (kl_config).
  std::optional<double> latent_scale = {};
  /// Images larger than a tile are tiled; the statistics of norms are then per tile.
  std::optional<Tiling> tiling = {};
  /// Kernels of the target, compiler flags, and the folder of compiled programs.
  runtime::ProgramOptions program = {};
};

/// The autoencoder of Stable Diffusion and Flux, from a diffusers `vae` folder or a single file,
/// which may contain other models. Images are videos of one frame; longer videos are processed
/// frame by frame. Over a mesh every device has all parameters.
///
/// Programs are compiled for each new size. The parameters of encoder and decoder are loaded at
/// first use, and again after release(). Thread-safe.
class KlAutoencoder final : public Autoencoder {
 public:
  /// Checks config and tensors of the folder; throws an Error if something does not fit.
  KlAutoencoder(const runtime::Devices& devices, const std::filesystem::path& folder,
                const KlAutoencoderOptions& options = {});
  ~KlAutoencoder() override;

  std::string name() const override { return "kl"; }
  LatentLayout layout() const override;
  const kl_autoencoder::AutoencoderConfig& config() const;

  /// f32 [3, f, H, W] -> the scaled mean for the diffusion model, f32 [z, f, h, w]. H and W are
  /// multiples of the spatial factor.
  HostArray encode(const HostArray& pixels) const override;
  HostArray encode_sample(const HostArray& pixels, const HostArray& noise) const override;
  void decode(const HostArray& latents, const FrameSink& sink) const override;
  using Autoencoder::decode;
  int64_t decode_memory_bytes(const Dims& latents) const override;
  void release() const override;

 private:
  class Side;
  struct Model;
  HostArray moments(const HostArray& pixels) const;
  std::unique_ptr<Model> model_;
};

/// True if a `vae` folder's config.json is of this class. Single files contain no other.
bool is_kl_autoencoder(const std::filesystem::path& folder);

/// The side of a latent cell in pixels, by the folder's config.json alone.
int64_t kl_cell_side(const std::filesystem::path& folder);

}  // namespace kinema::encoders
