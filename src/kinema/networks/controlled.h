#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kinema/io/json.h"
#include "kinema/model_files/checkpoint.h"
#include "kinema/networks/network.h"

/// Networks whose results are added inside another one: ControlNets.
namespace kinema::networks {

/// Inputs of a ControlNet in addition to those of the network that it is attached to.
struct ControlInputs {
  std::vector<Tensor> pictures;  // [b, channels, cell h, cell w] in [0, 1]
  std::vector<int64_t> types;    // of each picture, for networks with several kinds
  Tensor scale;                  // [number of pictures]
  bool rising = false;           // Inputs::guess_mode
};

/// The functions of a ControlNet at fixed sizes. Immutable.
class ControlArchitecture {
 public:
  virtual ~ControlArchitecture() = default;

  /// Sizes that it shares with the network that it is attached to: in_channels (of the latents
  /// without conditioning), text_dim, pooled_dim, size_ids, width.
  virtual const Sizes& sizes() const = 0;
  /// Channels of a picture, and the side in pixels of a latent.
  virtual int64_t picture_channels() const = 0;
  virtual int64_t cell() const = 0;
  /// Number of kinds of pictures that it follows; 0: one kind.
  virtual int64_t types() const = 0;
  /// It averages its results over all pixels.
  virtual bool pools() const = 0;
  virtual io::Json config() const = 0;
  virtual std::vector<nn::ParamSpec> parameters(const nn::ModelOptions& options) const = 0;
  /// What is added: see Inputs::residuals. `inputs` are those of the network, `latents` without the
  /// conditioning channels, and `cross_keys` of this network.
  virtual std::vector<Tensor> residuals(std::span<const Tensor> params,
                                        const nn::ModelOptions& options, const Inputs& inputs,
                                        const ControlInputs& control) const = 0;
  /// As those of Architecture.
  virtual std::vector<Tensor> cross_keys(std::span<const Tensor> params,
                                         const nn::ModelOptions& options, Tensor text) const = 0;
  virtual std::vector<Value> cross_key_values(const nn::ModelOptions& options, int64_t contexts,
                                              int64_t text_tokens) const = 0;
  virtual double forward_flops(const Dims& latents, int64_t text_tokens,
                               int64_t pictures) const = 0;
};

using ControlNet = std::shared_ptr<const ControlArchitecture>;

/// The ControlNet of a folder or of a file in the names of diffusers or of the original release: by
/// `config.json` if there is one, else by the tensors' shapes. Throws an Error with file and key.
ControlNet open_control(const std::filesystem::path& path);
/// From diffusers' `config.json`.
ControlNet control_from_config(const io::Json& config);

/// Checks the tensors of a ControlNet that is laid over its network, which makes them one
/// (model_files::is_control_module); says what it is: `version 2.1, hints behind 15 layers`. Throws
/// an Error with file and key.
std::string check_control_module(const model_files::Checkpoint& files);

/// A ControlNet, and the kinds of the pictures that it follows: a number for each, 0 where there
/// are no kinds.
struct AttachedControl {
  ControlNet network;
  std::vector<int64_t> types{0};
};

/// The network with ControlNets attached, as one network. It has an input of Entry::PICTURES for
/// all pictures together, and control_layers: a factor for each picture. Its parameters are those
/// of the network, then those of each ControlNet with `controlnet.`, `controlnet_1.` ... before
/// their keys (inner_part). Adapters and
/// quantized products are of the network alone. Throws an Error with both sizes if they do not
/// fit: a ControlNet of Stable Diffusion 1.5 on XL. `is_trained`: every sample has pictures.
Network controlled(const Network& network, std::vector<AttachedControl> controls,
                   bool is_trained = false);

/// A new ControlNet for a network: the encoder of a UNet, whose parameters are copied (those with
/// names of the UNet), an embedding of the picture, and outputs of zeros, with the sizes of
/// diffusers' `ControlNetModel.from_unet`. Throws an Error for other networks, and for a UNet that
/// takes channels beside the latents.
ControlNet new_control(const Network& network);

/// Sets `trained` for the training of ControlNets: of their parameters alone. Of other networks
/// nothing changes.
void freeze_controlled(std::span<nn::ParamSpec> specs);

}  // namespace kinema::networks
