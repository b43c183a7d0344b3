#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "kinema/io/json.h"
#include "kinema/models/unet/config.h"
#include "kinema/models/unet/unet.h"
#include "kinema/nn/model_options.h"

/// ControlNets (arXiv:2302.05543) of Stable Diffusion 1, 2 and XL: the encoder of a UNet that also
/// sees a picture, and whose results are added inside the UNet. Source: diffusers ControlNetModel
/// and ControlNetUnionModel.
namespace kinema::unet {

/// The sizes under the names of diffusers' `config.json`; the defaults are those of the ControlNets
/// of Stable Diffusion XL.
struct ControlNetConfig {
  /// Of the encoder, as the UNet's; what belongs to the up path is not read.
  UNetConfig encoder;
  int64_t conditioning_channels = 3;
  std::vector<int64_t> conditioning_embedding_out_channels{16, 32, 96, 256};
  bool is_bgr = false;  // channels of the picture in the order blue, green, red
  /// Results are averaged over all pixels.
  bool global_pool_conditions = false;
  /// Union ControlNets: kinds of pictures that one network follows; 0: one kind.
  int64_t num_control_type = 0;
  int64_t num_trans_channel = 0;  // of the layers that mix kinds of pictures
  int64_t num_trans_head = 0;
  int64_t num_trans_layer = 0;

  bool is_union() const { return num_control_type > 0; }
  /// Side in pixels of a latent's cell: each step of the embedding's channels halves a picture.
  int64_t cell() const { return int64_t{1} << (conditioning_embedding_out_channels.size() - 1); }
  bool operator==(const ControlNetConfig&) const = default;
};

inline constexpr std::string_view kControlNetClass = "ControlNetModel";
inline constexpr std::string_view kControlNetUnionClass = "ControlNetUnionModel";

/// Throws an Error with the key if a size is out of range or the sizes do not fit together.
void validate(const ControlNetConfig& config);

/// diffusers' `config.json` of a ControlNet or of a union ControlNet, and the same object for
/// saving. Throws as parse_config of a UNet.
ControlNetConfig parse_controlnet_config(const io::Json& json);
io::Json config_json(const ControlNetConfig& config);

/// Every parameter, in the order of `controlnet`. The output convolutions start as zero: a new
/// ControlNet adds nothing.
std::vector<nn::ParamSpec> parameters(const ControlNetConfig& config,
                                      const nn::ModelOptions& options);

/// Keys and values of the text, and their sizes, as those of a UNet.
std::vector<Tensor> text_keys(std::span<const Tensor> params, const ControlNetConfig& config,
                              const nn::ModelOptions& options, Tensor text);
std::vector<std::array<int64_t, 3>> text_key_sizes(const ControlNetConfig& config);

struct ControlNetInputs {
  /// As the UNet's; block_sum and residuals are not read.
  UNetInputs unet;
  /// [b, conditioning_channels, cell h, cell w] in [0, 1]; one, of union ControlNets one or more.
  std::vector<Tensor> pictures;
  /// Of union ControlNets: the kind of each picture, from 0.
  std::vector<int64_t> types = {};
  /// [number of pictures]: the factor of all results, or of each of several pictures.
  Tensor scale;
  /// Guess mode: results have factors that rise from 0.1 for the first to 1 for the middle.
  bool rising = false;
};

/// What is added inside the UNet, in activations_dtype. Taps: those of Entry and of the levels,
/// `cond_embedding.conv_in`, `cond_embedding`.
///
/// The layers of a union ControlNet treat each sample alone. The reference's attention there mixes
/// the samples of a batch instead, which makes no difference for the two halves of a guided image.
Residuals controlnet(std::span<const Tensor> params, const ControlNetConfig& config,
                     const nn::ModelOptions& options, const ControlNetInputs& inputs);

/// FLOPs of one sample of h x w latents with so many pictures.
double forward_flops(const ControlNetConfig& config, int64_t h, int64_t w, int64_t text_tokens,
                     int64_t pictures);

}  // namespace kinema::unet
