#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kinema/core/shape.h"
#include "kinema/graph/tensor.h"
#include "kinema/io/json.h"
#include "kinema/mesh/placement.h"
#include "kinema/nn/model_options.h"
#include "kinema/nn/params.h"
#include "kinema/schedulers/learned.h"

/// What training, sampling, planning and verifying know of a denoising network, whatever family it
/// is of.
namespace kinema::networks {

/// What a network takes and makes; 0 where there is nothing of it.
struct Sizes {
  int64_t in_channels = 0;   // of latents, and behind them of the condition that shows it images
  int64_t out_channels = 0;  // of latents
  /// Latents that make a token: frames, rows, columns.
  std::array<int64_t, 3> patch_size{1, 1, 1};
  int64_t max_positions = 0;  // tokens along one axis that have a position of their own
  int64_t text_dim = 0;
  int64_t text_tokens = 0;     // that the text must have; 0: any number
  int64_t encoder_tokens = 0;  // that the family's text encoders always give; 0: as many as asked
  int64_t image_dim = 0;       // of an image encoder's states
  int64_t image_tokens = 0;
  bool takes_last_image = false;  // makes the video between two images
  int64_t pooled_dim = 0;         // of the prompt as one vector, beside its tokens
  int64_t size_ids = 0;           // numbers about the picture's size, beside the text
  bool takes_guidance = false;    // is told the guidance scale
  /// Guidance was distilled into it: a negative prompt counts with a scale of its own alone.
  bool guidance_distilled = false;
  bool makes_images = false;  // latents have one frame
  int64_t sample_size = 0;    // latents a side of the pictures it was trained on; 0: not said
  /// What it makes, as messages call one of them.
  std::string_view noun() const { return makes_images ? "image" : "video"; }
  int64_t num_layers = 0;
  int64_t num_heads = 0;
  int64_t width = 0;

  /// Channels behind those of the latents.
  int64_t condition_channels() const { return in_channels - out_channels; }
  /// Of latents [..., f, h, w].
  int64_t tokens(const Dims& latents) const;
  bool operator==(const Sizes&) const = default;
};

/// What a forward pass is given. `b` is the batch, `t` and `n` are tokens of text and images.
struct Inputs {
  Tensor latents;      // [b, in_channels, f, h, w], float: noisy ones, behind them the condition's
  Tensor timestep;     // [b], or [b, s] token by token; float or integer, 0..1000
  Tensor text = {};    // [b, t, text_dim]
  Tensor image = {};   // [b, n, image_dim], for networks with image_dim
  Tensor pooled = {};  // [b, pooled_dim], for networks with pooled_dim
  Tensor size_ids = {};  // [b, size_ids], for networks with size_ids
  Tensor guidance = {};  // [b] or [1], for networks that take it: the guidance scale
  /// The timestep of the first latent frame where that may be another, [b]: 0 where it is given.
  Tensor first_timestep = {};
  /// In place of text and image: what cross_keys made of them.
  std::vector<Tensor> cross_keys = {};
  /// The batch is doubled for classifier-free guidance: both halves have the same latents, and
  /// different text, image and cross_keys. What is equal in both is computed once. For programs
  /// without gradients.
  bool cfg_batch = false;
  /// In place of running the blocks: what they added to the tokens for other inputs. Text, image
  /// and keys are then not read.
  Tensor block_sum = {};
  Tensor dropout_key = {};  // u32[2]; needed when dropout > 0, else empty
  /// Called with intermediate values under the names of the reference cases' taps. With scan_layers
  /// only those outside the blocks are offered.
  std::function<void(const std::string& name, Tensor value)> tap = {};
};

struct Outputs {
  Tensor prediction;  // [b, out_channels, f, h, w] in activations_dtype
  Tensor block_sum;   // what the blocks added to the tokens
};

/// A tensor that a program of a network takes or makes beside its parameters.
struct Value {
  std::string name;
  Shape shape;
  Sharding sharding;
};

/// What a family of networks gives, at fixed sizes. Never changes.
class Architecture {
 public:
  virtual ~Architecture() = default;

  virtual const Sizes& sizes() const = 0;
  /// What the family's networks predict.
  virtual schedulers::Learned learned() const = 0;
  /// What is written as the model folder's `config.json`; architectures of equal configurations are
  /// the same.
  virtual io::Json config() const = 0;
  /// The configuration of the release that the family is of. Throws an Error where that cannot say
  /// these sizes.
  virtual io::Json original_config() const = 0;

  /// Every parameter in the order in which `forward` wants its tensors. Nothing is allocated.
  virtual std::vector<nn::ParamSpec> parameters(const nn::ModelOptions& options,
                                                const nn::InitOptions& init = {}) const = 0;
  /// Throws an Error naming the sizes that work when something does not divide over the mesh axes
  /// that the rules put it on.
  virtual void check_divides(const mesh::Placement& place) const = 0;

  /// `params` are tensors of the shapes of `parameters(options)`, in that order.
  virtual Outputs forward(std::span<const Tensor> params, const nn::ModelOptions& options,
                          const Inputs& inputs) const = 0;
  /// Where in the network a tap of that name looks, as the checkpoint's keys call it:
  /// `blocks.3.attn1` of `block3.attn1`.
  virtual std::string key_of_tap(const std::string& name) const = 0;

  /// Keys and values of what attention across to text and images takes, which do not change from
  /// step to step.
  virtual std::vector<Tensor> cross_keys(std::span<const Tensor> params,
                                         const nn::ModelOptions& options, Tensor text,
                                         Tensor image) const = 0;
  /// What `cross_keys` makes of so many contexts, which lie along axis 1.
  virtual std::vector<Value> cross_key_values(const nn::ModelOptions& options, int64_t contexts,
                                              int64_t text_tokens, int64_t image_tokens) const = 0;
  /// Inputs::block_sum for so many contexts, which lie along axis 0, of latents [b, c, f, h, w].
  virtual Value block_sum_value(const nn::ModelOptions& options, int64_t contexts,
                                const Dims& latents) const = 0;

  /// Floating-point operations of a forward pass over one sample, latents [c, f, h, w], as the
  /// family's authors or MaxDiffusion count them.
  virtual double forward_flops(const Dims& latents, int64_t text_tokens) const = 0;
};

/// A network of some family: cheap to copy, equal to others of the same configuration.
class Network {
 public:
  /// Of nothing yet: to be assigned before it is asked.
  Network() = default;
  explicit Network(std::shared_ptr<const Architecture> architecture)
      : architecture_(std::move(architecture)), config_(architecture_->config().dump()) {}

  const Architecture* operator->() const { return architecture_.get(); }
  const Sizes& sizes() const { return architecture_->sizes(); }
  bool operator==(const Network& other) const { return config_ == other.config_; }

 private:
  std::shared_ptr<const Architecture> architecture_;
  std::string config_;
};

}  // namespace kinema::networks
