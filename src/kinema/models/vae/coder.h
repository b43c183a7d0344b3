#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "kinema/models/vae/config.h"
#include "kinema/models/vae/layers.h"
#include "kinema/nn/params.h"

namespace kinema::vae {

/// How the network is computed; independent of the checkpoint.
struct Options {
  DType weights_dtype = DType::F32;
  DType activations_dtype = DType::F32;
  Precision precision = Precision::DEFAULT;
};

/// How a video [b, c, f, h, w] that a program takes or gives is split: by its columns, where they
/// divide over the devices.
Sharding video_sharding(const mesh::Placement& place, const Dims& dims);

/// Called with an intermediate value under the name of the reference cases' taps ("conv_in",
/// "down_blocks.3", "mid_block", ...).
using Tap = std::function<void(const std::string& name, Tensor value)>;

/// What becomes of a chunk, and what the next one has to be given.
struct Chunk {
  Tensor result;
  std::vector<Tensor> past;
};

/// The parameters of the whole VAE, those of the encoder (`encoder`, `quant_conv`) before those of
/// the decoder (`post_quant_conv`, `decoder`). Throw what validate throws.
std::vector<nn::ParamSpec> parameters(const Config& config, const Options& options);
std::vector<nn::ParamSpec> encoder_parameters(const Config& config, const Options& options);
std::vector<nn::ParamSpec> decoder_parameters(const Config& config, const Options& options);

/// Pixels to the moments of their latents' distribution.
///
/// `video` is [b, 3, f, h, w] in [-1, 1], h and w multiples of config.spatial(). With an empty
/// `past` it is the first frame alone, f = 1; after that, f is a multiple of config.temporal() and
/// `past` what the last chunk gave. The result is f32 [b, 2 z, 1 or f / temporal, h / spatial, w /
/// spatial]: means, then logarithms of variances, not clamped. `params` are those of
/// encoder_parameters, in that order. `place`: which devices of a mesh hold what, see Compute.
Chunk encode(std::span<const Tensor> params, const Config& config, const Options& options,
             Tensor video, std::span<const Tensor> past, const Tap& tap = {},
             const mesh::Placement& place = {});

/// Latents, not normalised, to pixels.
///
/// `latents` is [b, z, f, h, w]; with an empty `past` the first latent frame alone. The result is
/// f32 [b, 3, 1 or temporal * f, spatial * h, spatial * w], not clamped to [-1, 1]. `params` are
/// those of decoder_parameters.
Chunk decode(std::span<const Tensor> params, const Config& config, const Options& options,
             Tensor latents, std::span<const Tensor> past, const Tap& tap = {},
             const mesh::Placement& place = {});

}  // namespace kinema::vae
