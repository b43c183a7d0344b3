#include "kinema/networks/controlled.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/graph/ops.h"
#include "kinema/networks/inner_model.h"

namespace kinema::networks {
namespace {

/// The part of a pipeline that a ControlNet is, as diffusers saves it: controlnet, controlnet_1 ...
std::string part_of(size_t i) {
  return i == 0 ? std::string(kControlNet) : fmt::format("{}_{}", kControlNet, i);
}

/// How ControlNets are computed: without adapters and quantized products, which are the network's.
nn::ModelOptions for_controls(nn::ModelOptions options) {
  options.low_ranks = {};
  options.low_rank_dropout = 0.0;
  options.quantization = {};
  return options;
}

/// Throws an Error if the ControlNet belongs to another kind of network.
void check_fits(const ControlArchitecture& control, const Sizes& network) {
  const Sizes& own = control.sizes();
  const auto text = [](const Sizes& s, int64_t channels) {
    return fmt::format("{} latent channels, text states of {}{}", channels, s.text_dim,
                       s.pooled_dim > 0 ? fmt::format(", pooled text of {}", s.pooled_dim) : "");
  };
  check(own.in_channels == network.out_channels && own.text_dim == network.text_dim &&
            own.pooled_dim == network.pooled_dim && own.size_ids == network.size_ids &&
            own.width == network.width,
        "[networks] the ControlNet is for a network with {}, but this one has {}\n  "
        "ControlNets of Stable Diffusion 1.5, 2.1 and XL fit models of their own kind; those of "
        "Flux are not supported",
        text(own, own.in_channels), text(network, network.out_channels));
}

int64_t pictures_of(const std::vector<AttachedControl>& controls) {
  return std::accumulate(
      controls.begin(), controls.end(), int64_t{0},
      [](int64_t sum, const AttachedControl& each) { return sum + std::ssize(each.types); });
}

class Controlled final : public Architecture {
 public:
  Controlled(Network network, std::vector<AttachedControl> controls, bool is_trained)
      : network_(std::move(network)), controls_(std::move(controls)), sizes_(network_.sizes()) {
    check(!controls_.empty(), "[networks] there is no ControlNet to attach");
    check(sizes_.control_layers == 0, "[networks] this network has a control branch of its own");
    const ControlArchitecture& first = *controls_.front().network;
    for (const AttachedControl& each : controls_) {
      check_fits(*each.network, sizes_);
      check(each.network->picture_channels() == first.picture_channels() &&
                each.network->cell() == first.cell(),
            "[networks] the ControlNets take pictures of {} and {} channels, {} and {} pixels to a "
            "latent: they cannot be used together",
            first.picture_channels(), each.network->picture_channels(), first.cell(),
            each.network->cell());
      check(std::ssize(each.types) == 1 || each.network->types() > 0,
            "[networks] {} pictures are given to one ControlNet, which follows one",
            each.types.size());
    }
    sizes_.control_layers = pictures_of(controls_);
    sizes_.control_pools = controls_.size() == 1 && first.pools();
    input_ = {.name = "control_pictures",
              .entry = Entry::PICTURES,
              .made_of = MadeOf::CONTROL_PICTURES,
              .channels = first.picture_channels() * sizes_.control_layers,
              .optional = !is_trained,
              .cell = first.cell()};
    sizes_.named.push_back(input_);
  }

  const Sizes& sizes() const override { return sizes_; }
  schedulers::Learned learned() const override { return network_->learned(); }
  io::Json config() const override { return network_->config(); }
  std::map<std::string, io::Json> inner_configs() const override {
    std::map<std::string, io::Json> out;
    for (size_t i = 0; i < controls_.size(); ++i) {
      out.emplace(part_of(i), controls_[i].network->config());
    }
    return out;
  }
  io::Json identity() const override {
    io::Json list = io::Json::array();
    for (const AttachedControl& each : controls_) {
      io::Json types = io::Json::array();
      for (const int64_t type : each.types) {
        types.append(type);
      }
      list.append(io::Json::object({{"config", each.network->config()}, {"types", types}}));
    }
    return io::Json::object({{"network", network_->identity()}, {"controlnets", list}});
  }
  io::Json original_config() const override {
    fail("[networks] a network with ControlNets is several models, each with files of its own");
  }

  std::vector<nn::ParamSpec> parameters(const nn::ModelOptions& options,
                                        const nn::InitOptions& init) const override {
    std::vector<nn::ParamSpec> out = network_->parameters(options, init);
    const nn::ModelOptions own = for_controls(options);
    for (size_t i = 0; i < controls_.size(); ++i) {
      for (nn::ParamSpec& spec : controls_[i].network->parameters(own)) {
        spec.name = fmt::format("{}.{}", part_of(i), spec.name);
        out.push_back(std::move(spec));
      }
    }
    return out;
  }
  void check_divides(const mesh::Placement& place) const override {
    network_->check_divides(place);
  }

  Outputs forward(std::span<const Tensor> params, const nn::ModelOptions& options,
                  const Inputs& inputs) const override {
    const size_t own = network_->parameters(options).size();
    Inputs in = inputs;
    in.control = {};
    in.control_scale = {};
    const size_t keys = own_keys(options);
    if (!inputs.cross_keys.empty()) {
      check(inputs.cross_keys.size() >= keys,
            "[networks] {} keys and values are given, expected {}", inputs.cross_keys.size(), keys);
      in.cross_keys.resize(keys);
    }
    // Results of another step already contain what was added.
    if (inputs.control && !inputs.block_sum) {
      in.residuals = residuals(params.subspan(own), for_controls(options), inputs, keys);
    }
    return network_->forward(params.first(own), options, in);
  }

  std::string key_of_tap(const std::string& name) const override {
    return network_->key_of_tap(name);
  }

  std::vector<Tensor> cross_keys(std::span<const Tensor> params, const nn::ModelOptions& options,
                                 Tensor text, Tensor image) const override {
    size_t first = network_->parameters(options).size();
    std::vector<Tensor> out = network_->cross_keys(params.first(first), options, text, image);
    const nn::ModelOptions own = for_controls(options);
    for (const AttachedControl& each : controls_) {
      const size_t count = each.network->parameters(own).size();
      const std::vector<Tensor> keys =
          each.network->cross_keys(params.subspan(first, count), own, text);
      out.insert(out.end(), keys.begin(), keys.end());
      first += count;
    }
    return out;
  }
  std::vector<Value> cross_key_values(const nn::ModelOptions& options, int64_t contexts,
                                      int64_t text_tokens, int64_t image_tokens) const override {
    std::vector<Value> out =
        network_->cross_key_values(options, contexts, text_tokens, image_tokens);
    for (size_t i = 0; i < controls_.size(); ++i) {
      for (Value& each :
           controls_[i].network->cross_key_values(for_controls(options), contexts, text_tokens)) {
        each.name = fmt::format("control{}_{}", i, each.name);
        out.push_back(std::move(each));
      }
    }
    return out;
  }
  Value block_sum_value(const nn::ModelOptions& options, int64_t contexts,
                        const Dims& latents) const override {
    return network_->block_sum_value(options, contexts, latents);
  }
  double forward_flops(const Dims& latents, int64_t text_tokens) const override {
    double out = network_->forward_flops(latents, text_tokens);
    for (const AttachedControl& each : controls_) {
      out += each.network->forward_flops(latents, text_tokens, std::ssize(each.types));
    }
    return out;
  }

 private:
  size_t own_keys(const nn::ModelOptions& options) const {
    return network_->cross_key_values(options, 1, 1, 1).size();
  }

  /// The sums of what all ControlNets add. With fewer pictures than samples, the first samples
  /// follow them; zeros are added to the others.
  std::vector<Tensor> residuals(std::span<const Tensor> params, const nn::ModelOptions& options,
                                const Inputs& inputs, size_t key) const {
    const int64_t b = inputs.latents.dim(0);
    const int64_t rows = inputs.control.dim(0);
    Dims followed = inputs.latents.shape().dims;
    followed[0] = rows;
    check(rows > 0 && rows <= b && input_.fits(inputs.control.shape().dims, followed),
          "[networks] the control pictures are {}, expected {}, or those of the first samples",
          to_string(inputs.control.shape()), input_.wanted(inputs.latents.shape().dims));
    const auto first_rows = [&](Tensor x, int64_t axis) {
      return x && x.dim(axis) > rows ? slice(x, Axis(axis), 0, rows) : x;
    };
    Inputs in = inputs;
    in.latents = slice(first_rows(inputs.latents, 0), Axis(1), 0, sizes_.out_channels);
    in.timestep = first_rows(inputs.timestep, 0);
    in.text = first_rows(inputs.text, 0);
    in.pooled = first_rows(inputs.pooled, 0);
    in.size_ids = first_rows(inputs.size_ids, 0);
    std::vector<Tensor> sums;
    int64_t picture = 0;
    for (size_t i = 0; i < controls_.size(); ++i) {
      const AttachedControl& each = controls_[i];
      in.tap = tap_of(inputs, i);
      in.cross_keys.clear();
      if (!inputs.cross_keys.empty()) {
        const size_t count = each.network->cross_key_values(options, 1, 1).size();
        for (size_t k = 0; k < count; ++k) {
          in.cross_keys.push_back(first_rows(inputs.cross_keys.at(key + k), 1));
        }
        key += count;
      }
      const size_t count = each.network->parameters(options).size();
      const Scope scope(in.latents.graph(), part_of(i));
      const std::vector<Tensor> added = each.network->residuals(params.first(count), options, in,
                                                                control_of(inputs, each, picture));
      params = params.subspan(count);
      picture += std::ssize(each.types);
      for (size_t k = 0; k < added.size(); ++k) {
        if (sums.size() == k) {
          sums.push_back(added[k]);
        } else {
          sums[k] = sums[k] + added[k];
        }
      }
    }
    for (Tensor& sum : sums) {
      sum = rows < b ? pad(sum, Axis(0), 0, b - rows) : sum;
    }
    return sums;
  }

  ControlInputs control_of(const Inputs& inputs, const AttachedControl& control,
                           int64_t first) const {
    ControlInputs out;
    out.types = control.types;
    out.rising = inputs.guess_mode;
    const auto count = std::ssize(control.types);
    for (int64_t i = first; i < first + count; ++i) {
      const int64_t channels = control.network->picture_channels();
      const Tensor one = slice(inputs.control, Axis(1), i * channels, channels);
      out.pictures.push_back(squeeze(one, Axis(2)));
    }
    Graph& graph = inputs.control.graph();
    out.scale = inputs.control_scale ? slice(inputs.control_scale, Axis(0), first, count)
                                     : constant(graph, 1.0, Shape{DType::F32, {count}});
    return out;
  }

  static std::function<void(const std::string&, Tensor)> tap_of(const Inputs& inputs, size_t i) {
    if (!inputs.tap) {
      return {};
    }
    return [&inputs, prefix = fmt::format("control{}.", i)](const std::string& name, Tensor value) {
      inputs.tap(prefix + name, value);
    };
  }

  Network network_;
  std::vector<AttachedControl> controls_;
  Sizes sizes_;
  NamedInput input_;
};

}  // namespace

Network controlled(const Network& network, std::vector<AttachedControl> controls, bool is_trained) {
  return Network(std::make_shared<const Controlled>(network, std::move(controls), is_trained));
}

void freeze_controlled(std::span<nn::ParamSpec> specs) {
  const auto is_control = [](const nn::ParamSpec& spec) {
    return is_controlnet(inner_part(spec.name));
  };
  if (std::ranges::any_of(specs, is_control)) {
    for (nn::ParamSpec& spec : specs) {
      spec.trained = is_control(spec);
    }
  }
}

}  // namespace kinema::networks
