#include "kinema/models/zimage/control.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/models/config_json.h"
#include "kinema/models/zimage/embed.h"

namespace kinema::zimage {
namespace {

using io::Json;

constexpr const char* kEmbedder = "control_all_x_embedder";
constexpr const char* kRefiner = "control_noise_refiner";
constexpr const char* kLayers = "control_layers";

/// A block of the branch with the projections of its hints. Control layers are not stacked: the
/// first alone has a projection of its input.
struct ControlBlock {
  ControlBlock(const nn::Params& params, const TransformerConfig& c, bool is_first)
      : block(params, c, Block::Modulated::YES), after(projection(params / "after_proj", c)) {
    if (is_first) {
      before = projection(params / "before_proj", c);
    }
  }

  /// Initialised with zeros: a new branch changes nothing.
  static nn::Linear projection(const nn::Params& params, const TransformerConfig& c) {
    return {
        params,
        c.dim,
        c.dim,
        {.out_axis = "embed", .in_axis = "mlp", .bias_axis = "embed", .init = nn::Init::zeros()}};
  }

  Block block;
  nn::Linear after;
  std::optional<nn::Linear> before;
};

nn::Linear embedder(const nn::Params& root, const TransformerConfig& c,
                    const ControlConfig& control) {
  constexpr int64_t kLatents = TransformerConfig::kPatch * TransformerConfig::kPatch;
  return {root / kEmbedder / "2-1",
          control.control_in_dim * kLatents,
          c.dim,
          {.out_axis = "mlp", .bias_axis = "mlp"}};
}

nn::Params layer_of(const nn::Params& root, const char* stack, int64_t layer) {
  return root / stack / std::to_string(layer);
}

std::vector<int64_t> places(const ConfigJson& file, const char* key) {
  const Json* given = file.find(key);
  return given == nullptr || given->is_null() ? std::vector<int64_t>() : given->as_ints();
}

bool are_places(const std::vector<int64_t>& places, int64_t layers) {
  return places.empty() ||
         (places.front() == 0 && places.back() < layers &&
          std::ranges::adjacent_find(places, std::ranges::greater_equal()) == places.end());
}

/// Hints with a leading axis of layers, zeros where there is none.
Tensor by_layer(const std::vector<int64_t>& where, const std::vector<Tensor>& hints,
                int64_t layers) {
  std::vector<Tensor> all(static_cast<size_t>(layers),
                          expand_dims(zeros_like(hints.front()), Axis(0)));
  for (size_t i = 0; i < hints.size(); ++i) {
    all[static_cast<size_t>(where[i])] = expand_dims(hints[i], Axis(0));
  }
  return concatenate(all, Axis(0));
}

}  // namespace

ControlConfig parse_control_config(const Json& json, const TransformerConfig& transformer) {
  const ConfigJson file("zimage", "a ControlNet of Z-Image", json);
  file.check_class(kControlClassName);
  file.check_fixed({{"all_patch_size", Json::array({int64_t{2}})},
                    {"all_f_patch_size", Json::array({int64_t{1}})},
                    {"qk_norm", true}});
  for (const auto& [key, own] :
       {std::pair{"dim", transformer.dim}, {"n_heads", transformer.n_heads}}) {
    check(file.at(key).as_int() == own,
          "[zimage] {} is {}, but the transformer's is {}: the ControlNet belongs to another model",
          file.at(key).where(), file.at(key).as_int(), own);
  }
  ControlConfig c;
  c.control_in_dim = file.at("control_in_dim").as_int();
  c.n_refiner_layers = file.at("n_refiner_layers").as_int();
  c.control_layers_places = places(file, "control_layers_places");
  const Json* adds = file.find("add_control_noise_refiner");
  if (adds != nullptr && !adds->is_null()) {
    const bool by_layers = adds->as_string() == kLayers;
    check(by_layers || adds->as_string() == kRefiner,
          "[zimage] {} is {} but must be {}, {} or null", adds->where(), adds->brief(), kRefiner,
          kLayers);
    c.n_refiner_layers = by_layers ? 0 : c.n_refiner_layers;
    c.control_refiner_layers_places = places(file, "control_refiner_layers_places");
    check(!c.control_refiner_layers_places.empty(),
          "[zimage] {}: `control_refiner_layers_places` names no layer", json.where());
  }
  file.check_known({"n_kv_heads", "norm_eps", "control_refiner_layers_places"});
  file.validated([&] { validate(c, transformer); });
  return c;
}

void validate(const ControlConfig& control, const TransformerConfig& transformer) {
  const int64_t z = transformer.in_channels;
  check(control.control_in_dim == z || control.control_in_dim == ControlConfig::with_kept(z),
        "[zimage] the ControlNet takes {} channels (control_in_dim), expected {}, or {} with "
        "those of a kept part: it belongs to another model",
        control.control_in_dim, z, ControlConfig::with_kept(z));
  check(!control.control_layers_places.empty() &&
            are_places(control.control_layers_places, transformer.n_layers),
        "[zimage] `control_layers_places` must rise from 0 to at most {}, the transformer's "
        "last layer",
        transformer.n_layers - 1);
  const std::vector<int64_t>& refined = control.control_refiner_layers_places;
  check(are_places(refined, transformer.n_refiner_layers),
        "[zimage] `control_refiner_layers_places` must rise from 0 to at most {}, the "
        "transformer's last layer of its noise refiner",
        transformer.n_refiner_layers - 1);
  check(control.n_refiner_layers >= 0 && control.n_refiner_layers <= transformer.n_refiner_layers,
        "[zimage] the ControlNet has {} refiner layers (n_refiner_layers), but the transformer "
        "{}",
        control.n_refiner_layers, transformer.n_refiner_layers);
  const int64_t hints = control.has_own_refiner() ? control.n_refiner_layers
                                                  : std::ssize(control.control_layers_places);
  check(std::ssize(refined) <= hints,
        "[zimage] `control_refiner_layers_places` names {} layers, but {} blocks give hints",
        refined.size(), hints);
}

Json control_config_json(const ControlConfig& c) {
  const auto list = [](const std::vector<int64_t>& values) {
    Json out = Json::array({});
    for (const int64_t value : values) {
      out.append(value);
    }
    return out;
  };
  return Json::object({{"_class_name", kControlClassName},
                       {"add_control_noise_refiner", !c.has_refiner_hints() ? Json()
                                                     : c.has_own_refiner()  ? Json(kRefiner)
                                                                            : Json(kLayers)},
                       {"control_in_dim", c.control_in_dim},
                       {"control_layers_places", list(c.control_layers_places)},
                       {"control_refiner_layers_places", list(c.control_refiner_layers_places)},
                       {"n_refiner_layers", c.n_refiner_layers}});
}

void open_control(nn::SpecCollector& specs, const TransformerConfig& config) {
  const ControlConfig& control = *config.control;
  const nn::Params root(specs, "");
  embedder(root, config, control);
  for (int64_t i = 0; i < control.n_refiner_layers; ++i) {
    const nn::Params layer = layer_of(root, kRefiner, i);
    if (control.has_refiner_hints()) {
      const ControlBlock block(layer, config, i == 0);
    } else {
      const Block block(layer, config, Block::Modulated::YES);
    }
  }
  for (int64_t i = 0; i < std::ssize(control.control_layers_places); ++i) {
    const ControlBlock block(layer_of(root, kLayers, i), config, i == 0);
  }
}

Tensor ControlBranch::embedded(Tensor latents, Tensor pad_token) const {
  check(latents.rank() == 4 && latents.dim(1) == control_.control_in_dim,
        "[zimage] control latents are {} but must be [b, {}, h, w]", to_string(latents.shape()),
        control_.control_in_dim);
  const Tensor x = nn::as(pack(latents), options_.activations_dtype);
  return fill_up(embedder(bound_.root(), config_, control_)(x, options_.precision), pad_token);
}

Tensor ControlBranch::through(const char* stack, int64_t count, Tensor x, Tensor start,
                              const Conditioning& given,
                              const std::function<void(int64_t, Tensor)>& hint) const {
  for (int64_t i = 0; i < count; ++i) {
    const Scope scope(x.graph(), stack + ("." + std::to_string(i)));
    const ControlBlock block(layer_of(bound_.root(), stack, i), config_, i == 0);
    if (block.before) {
      x = (*block.before)(x, options_.precision) + start;
    }
    x = block.block(x, given);
    hint(i, block.after(x, options_.precision));
  }
  return x;
}

RefinedControl ControlBranch::refined(Tensor tokens, Tensor image, Tensor scale,
                                      const Conditioning& given) const {
  if (!control_.has_refiner_hints()) {
    for (int64_t i = 0; i < control_.n_refiner_layers; ++i) {
      const Scope scope(tokens.graph(), kRefiner + ("." + std::to_string(i)));
      tokens = Block(layer_of(bound_.root(), kRefiner, i), config_, Block::Modulated::YES)(tokens,
                                                                                           given);
    }
    return {.tokens = tokens};
  }
  const size_t wanted = control_.control_refiner_layers_places.size();
  std::vector<Tensor> hints;
  const auto keep = [&](int64_t, Tensor hint) {
    if (hints.size() < wanted) {
      hints.push_back(hint * nn::as(scale, hint.dtype()));
    }
  };
  tokens = control_.has_own_refiner()
               ? through(kRefiner, control_.n_refiner_layers, tokens, image, given, keep)
               : through(kLayers, std::ssize(control_.control_layers_places), tokens, image, given,
                         keep);
  return {.tokens = tokens,
          .refiner_hints =
              by_layer(control_.control_refiner_layers_places, hints, config_.n_refiner_layers)};
}

Tensor ControlBranch::hints(Tensor control, Tensor main, Tensor scale,
                            const Conditioning& given) const {
  std::vector<Tensor> hints;
  through(kLayers, std::ssize(control_.control_layers_places), control, main, given,
          [&](int64_t layer, Tensor hint) {
            const Tensor own = reshape(slice(scale, Axis(0), layer, 1), {});
            hints.push_back(hint * nn::as(own, hint.dtype()));
          });
  return by_layer(control_.control_layers_places, hints, config_.n_layers);
}

}  // namespace kinema::zimage
