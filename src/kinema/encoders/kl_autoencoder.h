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
  /// Images larger than a tile are cut; the statistics of norms are then a tile's.
  std::optional<Tiling> tiling = {};
  /// Kernels of the target, compiler flags, and the folder of compiled programs.
  runtime::ProgramOptions program = {};
};

/// The autoencoder of Stable Diffusion XL and Flux, from a diffusers `vae` folder or a single
/// file, which may hold other models too: images are videos of one frame, and longer ones pass
/// frame by frame. Over a mesh every device holds all of it.
///
/// Programs are compiled for each size when it is first seen; parameters of a side are loaded when
/// it is first used, and again after release(). Safe to use from several threads.
class KlAutoencoder final : public Autoencoder {
 public:
  /// Checks config and tensors of the folder; throws an Error naming what does not fit.
  KlAutoencoder(const runtime::Devices& devices, const std::filesystem::path& folder,
                const KlAutoencoderOptions& options = {});
  ~KlAutoencoder() override;

  std::string name() const override { return "kl"; }
  LatentLayout layout() const override;
  const kl_autoencoder::AutoencoderConfig& config() const;

  /// f32 [3, f, H, W] -> the mean as the diffusion model wants it, f32 [z, f, h, w]. H and W are
  /// multiples of the spatial factor.
  HostArray encode(const HostArray& pixels) const override;
  void decode(const HostArray& latents, const FrameSink& sink) const override;
  using Autoencoder::decode;
  int64_t decode_memory_bytes(const Dims& latents) const override;
  void release() const override;

 private:
  class Side;
  struct Model;
  std::unique_ptr<Model> model_;
};

/// Whether a `vae` folder's config.json says that it is one. A file may hold no other.
bool is_kl_autoencoder(const std::filesystem::path& folder);

}  // namespace kinema::encoders
