#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "kinema/graph/ops.h"
#include "kinema/models/kl_autoencoder/config.h"
#include "kinema/nn/params.h"

/// The autoencoder of Stable Diffusion and Flux (arXiv:2112.10752): images to a Gaussian over
/// latents of an eighth of the width and height, and back. Source: diffusers AutoencoderKL.
namespace kinema::kl_autoencoder {

struct CoderOptions {
  DType weights_dtype = DType::F32;  // of convolutions and linear layers; norms are f32
  DType activations_dtype = DType::F32;
  Precision precision = Precision::DEFAULT;
  /// Called with "conv_in", "down0", "mid_attention", "mid_block", "up0", "conv_norm_out".
  std::function<void(const std::string& name, Tensor value)> tap = {};
};

std::vector<nn::ParamSpec> encoder_parameters(const AutoencoderConfig& config,
                                              const CoderOptions& options);
std::vector<nn::ParamSpec> decoder_parameters(const AutoencoderConfig& config,
                                              const CoderOptions& options);

/// The Gaussian of each latent, f32 [b, latent_channels, h, w].
struct Moments {
  Tensor mean;
  Tensor log_variance;  // clamped to [-30, 20]
};

/// mean + noise exp(log_variance / 2), noise of the same shape.
Tensor sample(const Moments& moments, Tensor noise);

/// images [b, 3, H, W] in [-1, 1], H and W multiples of `spatial()`. `params` have the shapes and
/// the order of `encoder_parameters`.
Moments encode(std::span<const Tensor> params, const AutoencoderConfig& config,
               const CoderOptions& options, Tensor images);

/// Unscaled latents [b, latent_channels, h, w] (see unscaled) -> f32 images [b, 3, H, W], not
/// clamped.
Tensor decode(std::span<const Tensor> params, const AutoencoderConfig& config,
              const CoderOptions& options, Tensor latents);

/// The autoencoder's latents as inputs of the diffusion model, and back: f32 [b, c, h, w].
Tensor scaled(Tensor latents, const AutoencoderConfig& config);
Tensor unscaled(Tensor latents, const AutoencoderConfig& config);
/// The standard deviation of scaled latents.
Tensor scaled_deviation(const Moments& moments, const AutoencoderConfig& config);

}  // namespace kinema::kl_autoencoder
