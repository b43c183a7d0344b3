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

/// Sharding of a video [b, c, f, h, w] that is an input or result of a program: along its columns,
/// if they divide over the devices.
Sharding video_sharding(const mesh::Placement& place, const Dims& dims);

/// Called with an intermediate value under the name of the reference cases' taps ("conv_in",
/// "down_blocks.3", "mid_block", ...).
using Tap = std::function<void(const std::string& name, Tensor value)>;

/// The result of a chunk, and the state for the next one.
struct Chunk {
  Tensor result;
  std::vector<Tensor> past;
};

/// Parameters of the whole VAE: those of the encoder (`encoder`, `quant_conv`), then those of the
/// decoder (`post_quant_conv`, `decoder`). Throws what validate throws.
std::vector<nn::ParamSpec> parameters(const Config& config, const Options& options);
std::vector<nn::ParamSpec> encoder_parameters(const Config& config, const Options& options);
std::vector<nn::ParamSpec> decoder_parameters(const Config& config, const Options& options);

/// Pixels to the Gaussian of their latents.
///
/// `video` is [b, 3, f, h, w] in [-1, 1], h and w multiples of config.spatial(). With an empty
/// `past` it is the first frame only, f = 1; later, f is a multiple of config.temporal() and `past`
/// is the state from the previous chunk. The result is f32 [b, 2 z, 1 or f / temporal, h / spatial,
/// w / spatial]: means, then logarithms of variances, not clamped. `params` are in the order of
/// encoder_parameters. `place`: the sharding over a mesh, see Compute.
Chunk encode(std::span<const Tensor> params, const Config& config, const Options& options,
             Tensor video, std::span<const Tensor> past, const Tap& tap = {},
             const mesh::Placement& place = {});

/// Unnormalised latents to pixels.
///
/// `latents` is [b, z, f, h, w]; with an empty `past` the first latent frame only. The result is
/// f32 [b, 3, 1 or temporal * f, spatial * h, spatial * w], not clamped to [-1, 1]. `params` are in
/// the order of decoder_parameters.
Chunk decode(std::span<const Tensor> params, const Config& config, const Options& options,
             Tensor latents, std::span<const Tensor> past, const Tap& tap = {},
             const mesh::Placement& place = {});

}  // namespace kinema::vae
