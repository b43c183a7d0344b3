#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
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
#include "kinema/networks/named_input.h"
#include "kinema/nn/model_options.h"
#include "kinema/nn/params.h"
#include "kinema/schedulers/learned.h"

/// The interface of a denoising network for training, sampling, planning and verifying, for all
/// families.
namespace kinema::networks {

/// Sizes of a network's inputs and outputs; 0 for inputs that it does not have.
struct Sizes {
  int64_t in_channels = 0;   // of latents, followed by those of the image conditioning
  int64_t out_channels = 0;  // of latents
  /// Latents per token: frames, rows, columns.
  std::array<int64_t, 3> patch_size{1, 1, 1};
  int64_t max_positions = 0;  // position embeddings along one axis
  int64_t text_dim = 0;
  int64_t text_tokens = 0;  // required number of text tokens; 0: any
  int64_t encoder_tokens =
      0;  // number that the family's text encoders always return; 0: as requested
  /// False: rows of zeros after a text's end change nothing, and fewer of them may be given.
  bool reads_padding = true;
  int64_t image_dim = 0;  // of an image encoder's states
  int64_t image_tokens = 0;
  bool takes_last_image = false;  // generates the video between two images
  /// Inputs made of given pictures and videos, in the order in which they are given.
  std::vector<NamedInput> named = {};
  /// Results of the control branch that are added, or pictures of ControlNets: each has a factor.
  int64_t control_layers = 0;
  bool control_pools = false;  // a ControlNet that always follows its picture in guess mode
  int64_t pooled_dim = 0;      // of the pooled text, in addition to its tokens
  /// Token ids, S32, in their places: of a network that runs its text encoders (with_text).
  bool text_is_ids = false;
  bool pooled_is_ids = false;
  int64_t size_ids = 0;         // numbers about the picture's size, in addition to the text
  bool takes_guidance = false;  // has the guidance scale as an input
  /// Guidance was distilled into it: a negative prompt is used only with a separate scale.
  bool guidance_distilled = false;
  /// Added to guidance_scale for the factor g of u + g (c - u): 1 where the scale itself is that of
  /// c + g (c - u), so that 0 is no guidance.
  double guidance_offset = 0.0;
  bool makes_images = false;  // latents have one frame
  int64_t sample_size = 0;    // latents per side of the training pictures; 0: unknown
  /// What it generates, for messages.
  std::string_view noun() const { return makes_images ? "image" : "video"; }
  int64_t num_layers = 0;
  int64_t num_heads = 0;
  int64_t width = 0;

  /// Channels after those of the latents.
  int64_t condition_channels() const { return in_channels - out_channels; }
  /// The named input whose values the samples of a data set have; null: none. A given first frame
  /// is that of the sample's latents.
  const NamedInput* stored_input() const;
  /// The number of tokens of latents [..., f, h, w].
  int64_t tokens(const Dims& latents) const;
  bool operator==(const Sizes&) const = default;
};

/// Inputs of a forward pass. `b` is the batch; `t` and `n` are the numbers of text and image
/// tokens.
struct Inputs {
  Tensor
      latents;  // [b, in_channels, f, h, w], float: noisy latents, then the conditioning channels
  Tensor timestep;       // [b], or [b, s] per token; float or integer, 0..1000
  Tensor text = {};      // [b, t, text_dim]
  Tensor image = {};     // [b, n, image_dim], for networks with image_dim
  Tensor pooled = {};    // [b, pooled_dim], for networks with pooled_dim
  Tensor size_ids = {};  // [b, size_ids], for networks with size_ids
  Tensor guidance = {};  // [b] or [1], for networks with takes_guidance: the guidance scale
  /// Named inputs, which `put` puts here: of Entry::TOKENS [b, out_channels, 1, h', w'], of
  /// Entry::BRANCH [b, channels, f', h, w] with f' <= f, and of Entry::PICTURES [b, channels, 1, H,
  /// W], or of the first samples of the batch only, to whose predictions they then apply.
  Tensor reference = {};  // also of Entry::FRONT
  Tensor camera = {};     // of Entry::CAMERA, [b, channels, f, H, W]
  Tensor poses = {};      // of Entry::POSES, [b, channels, f - 1, h, w]
  Tensor faces = {};      // of Entry::FACES, pictures, or the result of face_tokens
  Tensor control = {};
  Tensor control_scale = {};  // [control_layers]; empty: 1
  /// ControlNets' guess mode: what they add has factors from 0.1 to 1.
  bool guess_mode = false;
  /// What another network adds inside this one: for a UNet to each skip connection, in the order of
  /// the down path, then to the middle's result.
  std::vector<Tensor> residuals = {};
  /// A separate timestep for the first latent frame, [b]: 0 if it is a conditioning frame.
  Tensor first_timestep = {};
  /// Instead of text and image: the result of cross_keys.
  std::vector<Tensor> cross_keys = {};
  /// Classifier-free guidance batch: both halves have the same latents, and different text, image
  /// and cross_keys. Values that are equal in both halves are computed once. For programs without
  /// gradients.
  bool cfg_batch = false;
  /// No text of the batch ends before the last rows that are read together, so that none needs a
  /// mask; for families whose padding is not read.
  bool text_fills = false;
  /// Instead of running the blocks: the sum that they added to the tokens in another step. Text,
  /// image and keys are then not read.
  Tensor block_sum = {};
  Tensor dropout_key = {};  // u32[2]; needed when dropout > 0, else empty
  /// Called with intermediate values under the names of the reference cases' taps. With scan_layers
  /// it is called for values outside the blocks only.
  std::function<void(const std::string& name, Tensor value)> tap = {};
};

struct Outputs {
  Tensor prediction;  // [b, out_channels, f, h, w] in activations_dtype
  Tensor block_sum;   // the sum that the blocks added to the tokens
};

/// An input or output of a network's program that is not a parameter.
struct Value {
  std::string name;
  Shape shape;
  Sharding sharding;
};

/// The functions of a model family at fixed sizes. Immutable.
class Architecture {
 public:
  virtual ~Architecture() = default;

  virtual const Sizes& sizes() const = 0;
  /// The prediction type of the family's networks.
  virtual schedulers::Learned learned() const = 0;
  /// The content of a model folder's `config.json`.
  virtual io::Json config() const = 0;
  /// Architectures for which this is equal are equal.
  virtual io::Json identity() const { return config(); }
  /// The configuration in the original release's format. Throws an Error if that format cannot
  /// express these sizes.
  virtual io::Json original_config() const = 0;
  /// The `config.json` of each model inside the network, by its part of the pipeline (with_text,
  /// controlled).
  virtual std::map<std::string, io::Json> inner_configs() const { return {}; }

  /// Every parameter, in the order of `forward`. Nothing is allocated.
  virtual std::vector<nn::ParamSpec> parameters(const nn::ModelOptions& options,
                                                const nn::InitOptions& init = {}) const = 0;
  /// Throws an Error with the sizes that work if something does not divide over its mesh axes.
  virtual void check_divides(const mesh::Placement& place) const = 0;

  /// `params` have the shapes and the order of `parameters(options)`.
  virtual Outputs forward(std::span<const Tensor> params, const nn::ModelOptions& options,
                          const Inputs& inputs) const = 0;
  /// The checkpoint key of the module that a tap inspects: `blocks.3.attn1` for `block3.attn1`.
  virtual std::string key_of_tap(const std::string& name) const = 0;

  /// Keys and values of cross-attention to text and images, which are the same in all steps.
  virtual std::vector<Tensor> cross_keys(std::span<const Tensor> params,
                                         const nn::ModelOptions& options, Tensor text,
                                         Tensor image) const = 0;
  /// The shapes of the results of `cross_keys` for `contexts` contexts, which are along axis 1.
  virtual std::vector<Value> cross_key_values(const nn::ModelOptions& options, int64_t contexts,
                                              int64_t text_tokens, int64_t image_tokens) const = 0;
  /// The tokens of Entry::FACES, which are the same in all steps, of pictures [b, 3, f', S, S]; and
  /// their shape for `contexts` contexts, along axis 0, and latents [b, c, f, h, w]. Throw an Error
  /// for networks without this input.
  virtual Tensor face_tokens(std::span<const Tensor> params, const nn::ModelOptions& options,
                             Tensor pictures) const;
  virtual Value face_token_value(const nn::ModelOptions& options, int64_t contexts,
                                 const Dims& latents) const;
  /// The shape of Inputs::block_sum for `contexts` contexts, which are along axis 0, and latents
  /// [b, c, f, h, w].
  virtual Value block_sum_value(const nn::ModelOptions& options, int64_t contexts,
                                const Dims& latents) const = 0;

  /// FLOPs of a forward pass of one sample, latents [c, f, h, w], by the formula of the family's
  /// authors or of MaxDiffusion.
  virtual double forward_flops(const Dims& latents, int64_t text_tokens) const = 0;
};

/// A network of any family: cheap to copy, equal to others of the same configuration.
class Network {
 public:
  /// Empty: assign a network before any other use.
  Network() = default;
  explicit Network(std::shared_ptr<const Architecture> architecture)
      : architecture_(std::move(architecture)), identity_(architecture_->identity().dump()) {}

  const Architecture* operator->() const { return architecture_.get(); }
  const Sizes& sizes() const { return architecture_->sizes(); }
  bool operator==(const Network& other) const { return identity_ == other.identity_; }

 private:
  std::shared_ptr<const Architecture> architecture_;
  std::string identity_;
};

}  // namespace kinema::networks
