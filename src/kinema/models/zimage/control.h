#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kinema/io/json.h"
#include "kinema/models/zimage/block.h"
#include "kinema/models/zimage/config.h"
#include "kinema/nn/layers.h"
#include "kinema/nn/model_options.h"
#include "kinema/nn/params.h"

/// A ControlNet of Z-Image-Turbo: copies of blocks that see control latents, whose results (hints)
/// are added behind blocks of the transformer. Source: diffusers ZImageControlNetModel.
namespace kinema::zimage {

inline constexpr std::string_view kControlClassName = "ZImageControlNetModel";

/// The JSON of the configuration's ControlNet.
io::Json control_config_json(const ControlConfig& control);

/// A ControlNet's `config.json`. Throws an Error with file and key for another class, sizes that
/// are not those of the transformer, or places that it does not have.
ControlConfig parse_control_config(const io::Json& json, const TransformerConfig& transformer);

/// Throws an Error with the key if the ControlNet does not fit the transformer.
void validate(const ControlConfig& control, const TransformerConfig& transformer);

/// The parameters of the configuration's ControlNet alone.
void open_control(nn::SpecCollector& specs, const TransformerConfig& config);

/// The control tokens after the refiner.
struct RefinedControl {
  Tensor tokens;  // [b, n, d]
  /// [refiner layers, b, n, d], scaled: added behind the noise refiner's layers where it runs for
  /// the ControlNet; empty without such hints.
  Tensor refiner_hints = {};
};

/// A ControlNet with its parameters in a graph.
class ControlBranch {
 public:
  /// `bound` has the ControlNet's parameters too.
  ControlBranch(nn::Bound& bound, const TransformerConfig& config, const nn::ModelOptions& options)
      : bound_(bound), config_(config), control_(*config.control), options_(options) {}

  /// Control latents [b, control_in_dim, h, w] as tokens, filled up with `pad_token`.
  Tensor embedded(Tensor latents, Tensor pad_token) const;

  /// `image`: the transformer's image tokens before its noise refiner; `scale` []: of the hints.
  RefinedControl refined(Tensor tokens, Tensor image, Tensor scale,
                         const Conditioning& given) const;

  /// Hints behind all main layers, [layers, b, s, d], scaled by `scale` [control layers] and zero
  /// where there is none. `control` and `main` are [b, s, d]: image and text tokens.
  Tensor hints(Tensor control, Tensor main, Tensor scale, const Conditioning& given) const;

 private:
  /// Through the first `count` blocks of a stack; `hint` gets each hint.
  Tensor through(const char* stack, int64_t count, Tensor x, Tensor start,
                 const Conditioning& given,
                 const std::function<void(int64_t layer, Tensor hint)>& hint) const;

  nn::Bound& bound_;
  const TransformerConfig& config_;
  const ControlConfig& control_;
  const nn::ModelOptions& options_;
};

}  // namespace kinema::zimage
