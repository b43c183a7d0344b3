// Quantization: single operations (layers, attention, a convolution over patches), and a whole
// network.
#include <algorithm>
#include <functional>

#include "kinema/core/error.h"
#include "kinema/graph/autodiff.h"
#include "kinema/graph/ops.h"
#include "kinema/nn/attention.h"
#include "kinema/nn/linear.h"
#include "kinema/nn/patch_embedding.h"
#include "kinema/nn/quantized.h"
#include "kinema/verification/arrays.h"
#include "kinema/verification/network.h"

namespace kinema::verification {
namespace {

using nn::QuantizedProduct;

constexpr Precision kHighest = Precision::HIGHEST;

/// The case's quantization mode, for all modules.
nn::Quantization quantization_of(const io::Json& about) {
  const std::string& mode = about.at("quantization").as_string();
  nn::Quantization out;
  out.mode = mode == "int8"  ? nn::Quantization::Mode::INT8
             : mode == "fp8" ? nn::Quantization::Mode::FP8
                             : nn::Quantization::Mode::FP8_FULL;
  check(out.mode != nn::Quantization::Mode::FP8_FULL || mode == "fp8_full",
        "[verify] quantization is `{}`: int8, fp8 and fp8_full are known", mode);
  return out;
}

/// `how` with the calibrations in a case's JSON.
QuantizedProduct calibrated(QuantizedProduct how, const io::Json& keys) {
  const auto read = [&](const char* key) { return nn::calibration(keys.at(key).as_string()); };
  how.weight = read("weight_quantization_calibration_method");
  how.activation = read("act_quantization_calibration_method");
  how.gradient = read("bwd_quantization_calibration_method");
  return how;
}

/// The operations of a case: their inputs, and those of their results for which the case has
/// values.
class Operations {
 public:
  explicit Operations(const Run& run)
      : run_(run), graph_(run), quantization_(quantization_of(run.c.about())) {}

  QuantizedProduct product() const { return quantization_.product(); }
  Values run() { return graph_.run(); }

  /// Adds PREFIXy = f(PREFIXNAME of each operand), and its gradients PREFIXdNAME for PREFIXdy.
  /// `inside` is inserted before the names of results.
  void add(const std::string& prefix, const std::vector<std::string>& operands,
           const std::function<Tensor(std::span<const Tensor> in)>& f,
           const std::string& inside = "") {
    std::vector<Tensor> in;
    for (const std::string& name : operands) {
      in.push_back(operand(prefix, name));
    }
    const Tensor y = f(in);
    output(prefix + inside + "y", y);
    const std::vector<Tensor> grads =
        pull_back(std::vector{y}, std::vector{operand(prefix, "dy")}, in);
    for (size_t i = 0; i < grads.size(); ++i) {
      const size_t last = operands[i].rfind('.') + 1;  // 0 without a dot
      output(prefix + inside + operands[i].substr(0, last) + "d" + operands[i].substr(last),
             grads[i]);
    }
  }

  /// Adds codes and scales of the operands of a linear layer and of its gradients.
  void add_codes(const std::string& prefix, const QuantizedProduct& how) {
    const auto codes_of = [&](const std::string& name, const auto& calibration) {
      const Tensor x = operand(prefix, name);
      const std::vector<int64_t> axes =
          how.per_tensor ? std::vector<int64_t>() : std::vector{x.rank() - 1};
      const nn::Codes codes = nn::quantize(x, how.codes, axes, calibration);
      output(prefix + name + "_codes", codes.values);
      output(prefix + name + "_scale", codes.scale);
      return codes.scale;
    };
    const Tensor x_scale = codes_of("x", how.activation);
    const Tensor weight_scale = codes_of("weight", how.weight);
    if (how.gradient_codes) {
      const Tensor dy = operand(prefix, "dy");
      const auto of_gradient = [&](Tensor scale) {
        return nn::quantize(dy * reshape(scale, {}), *how.gradient_codes, {}, how.gradient);
      };
      output(prefix + "dy_codes", of_gradient(weight_scale).values);
      output(prefix + "dy_scale_for_dx", of_gradient(weight_scale).scale);
      output(prefix + "dy_scale_for_dweight", of_gradient(x_scale).scale);
    }
  }

 private:
  /// A missing operand is the one of `linear`.
  Tensor operand(const std::string& prefix, const std::string& name) {
    const bool is_layer = prefix != "mlp." && prefix != "attention." && prefix != "conv.";
    return graph_.input((is_layer && !run_.has(prefix + name) ? "linear." : prefix) + name);
  }
  void output(const std::string& name, Tensor value) {
    if (run_.has(name)) {
      graph_.output(name, value);
    }
  }

  const Run& run_;
  CaseGraph graph_;
  nn::Quantization quantization_;
};

Tensor linear_of(std::span<const Tensor> in, const QuantizedProduct& how) {
  return nn::linear(in[0], in[1], in[2], kHighest, {}, how);
}

/// x through two layers with their weights and biases.
Tensor mlp_of(std::span<const Tensor> in, const QuantizedProduct& how) {
  const Tensor hidden = gelu_tanh(linear_of(in, how));
  return nn::linear(hidden, in[3], in[4], kHighest, {}, how);
}

/// q, k, v [heads, length, dim]: heads as samples.
Tensor attention_of(std::span<const Tensor> in, double scale, const QuantizedProduct& how) {
  const auto one_head = [](Tensor x) { return expand_dims(x, Axis(2)); };
  const Tensor y = nn::attention(one_head(in[0]), one_head(in[1]), one_head(in[2]),
                                 {.precision = kHighest, .scale = scale, .quantized = how});
  return squeeze(y, Axis(2));
}

/// The convolution of x over its patches; `shape` is [b, channels, f, h, w].
Tensor patches_of(std::span<const Tensor> in, const Dims& shape, const QuantizedProduct& how) {
  const Tensor w = in[1];
  nn::Binder binder([&](const std::string&) { return how; });
  binder.add("conv.weight", w);
  binder.add("conv.bias", in[2]);
  const nn::PatchEmbedding embed(nn::Params(binder, "conv"), w.dim(1), w.dim(0),
                                 {w.dim(2), w.dim(3), w.dim(4)});
  const Dims tokens{shape.at(0), shape.at(2), shape.at(3), shape.at(4), shape.at(1)};
  return transpose(reshape(embed(in[0], kHighest), tokens), {0, 4, 1, 2, 3});
}

/// The quantization of the network in one of the case's ways.
nn::Quantization quantization_of_way(const Case& c, const std::string& way) {
  if (way == "plain") {
    return {};
  }
  nn::Quantization out = quantization_of(c.about());
  if (way == "linear" || way == "linear_original") {
    out.module_path = "(?!.*attention_op).*";
  } else {
    check(way == "all", "[verify] the run `{}` is not known", way);
  }
  out.original_residuals = way == "linear_original";
  return out;
}

/// `WAY.prediction`, `WAY.loss`, `WAY.grad_norm` and gradients, by name.
Values quantized_values(const Run& run, const std::string& way) {
  nn::ModelOptions options = run.options;
  options.precision = kHighest;
  options.quantization = quantization_of_way(run.c, way);
  NetworkGraph graph(run, options);
  const networks::Inputs in{.latents = graph.input("noisy_latents"),
                            .timestep = graph.input("timestep"),
                            .text = graph.input("encoder_hidden_states")};
  const Tensor prediction = graph.network->forward(graph.params, options, in).prediction;
  graph.output_gradients(way + ".", prediction, mean(square(graph.input("target") - prediction)));
  Values values = graph.run();
  std::ranges::sort(values, {}, &Values::value_type::first);
  return values;
}

/// The root mean square of a - b over that of b.
double distance(const HostArray& a, const HostArray& b) {
  check(a.shape.elements() == b.shape.elements(), "[verify] {} is compared with {}",
        to_string(a.shape), to_string(b.shape));
  const auto rms_of_difference = [&](const HostArray& x) {
    return compare("", "", x, b, {}).rms_diff;
  };
  return rms_of_difference(a) / rms_of_difference(HostArray(b.shape));
}

/// Adds the distance of quantized results from exact ones, divided by the same distance in the
/// reference: codes that flip change single values, but hardly this ratio. `what`: prediction, or
/// the gradients' mean.
void add_distance(const Run& run, const std::string& way, const std::string& what,
                  const Values& values, const io::Json& range) {
  double ours = 0.0;
  double theirs = 0.0;
  for (const auto& [tensor, value] : values) {
    const std::string name = tensor.substr(way.size() + 1);
    const std::string plain = "plain." + name;
    if ((name == what || name.starts_with(what + ".")) && run.has(tensor) && run.has(plain)) {
      ours += distance(value, run.tensor(plain));
      theirs += distance(run.tensor(tensor), run.tensor(plain));
    }
  }
  const double low = range.items().at(0).as_number();
  const double high = range.items().at(1).as_number();
  const std::string tensor = way + " away from plain: " + what;
  run.with(LimitTable{{tensor, {.absolute = (high - low) / 2.0}}})
      .add(tensor, numbers({static_cast<float>(ours / theirs)}),
           numbers({static_cast<float>((low + high) / 2.0)}));
}

void compute_quantized_operations(const Run& run) {
  Operations operations(run);
  const QuantizedProduct plain = operations.product();
  std::vector<std::pair<std::string, QuantizedProduct>> linears{
      {"linear.", plain}, {"zeros.", plain}, {"bf16.", plain}};
  if (const io::Json* calibrations = run.c.about().find("calibrations")) {
    for (const auto& [name, keys] : calibrations->members()) {
      linears.emplace_back(name + ".", calibrated(plain, keys));
    }
  }
  QuantizedProduct original = plain;
  original.original_residuals = true;
  using In = std::span<const Tensor>;
  const std::vector<std::string> layer{"x", "weight", "bias"};
  const std::vector<std::string> layers{"x", "linear_1.weight", "linear_1.bias", "linear_2.weight",
                                        "linear_2.bias"};
  for (const auto& each : linears) {
    if (!run.c.names(each.first).empty()) {
      operations.add(each.first, layer, [&](In in) { return linear_of(in, each.second); });
      operations.add_codes(each.first, each.second);
    }
  }
  const bool has_mlp = run.has("mlp.x");
  if (has_mlp) {
    operations.add("mlp.", layers, [&](In in) { return mlp_of(in, plain); });
  }
  operations.add(
      "linear.", layer, [&](In in) { return linear_of(in, original); }, "original.");
  if (has_mlp) {
    operations.add(
        "mlp.", layers, [&](In in) { return mlp_of(in, original); }, "original.");
  }
  if (run.has("attention.q")) {
    operations.add("attention.", {"q", "k", "v"}, [&](In in) {
      return attention_of(in, run.about("attention_scale").as_number(), plain);
    });
  }
  if (run.has("conv.x")) {
    operations.add("conv.", layer,
                   [&](In in) { return patches_of(in, run.tensor("conv.dy").shape.dims, plain); });
  }
  run.add(operations.run());
}

void predict_quantized(const Run& run) {
  for (const auto& [way, what] : run.about("runs").members()) {
    for (const Run& form : run.forms()) {
      const Values values = quantized_values(form, way);
      form.add_known(values);
      if (const io::Json* away = run.about("limits").find(way + " away from plain")) {
        for (const auto& [measure, range] : away->members()) {
          add_distance(form, way, measure, values, range);
        }
      }
    }
  }
}

}  // namespace

std::vector<Kind> quantization_kinds() {
  using enum Kind::Forms;
  return {
      // Without quantization no code flips: limits are those of other networks.
      {"quant_model_*",
       predict_quantized,
       ONE,
       {{"plain.prediction", kOutput}, {"plain.grad.*", kThousandth}, {"plain.*", kScalar}},
       Limits::Which::FIRST},
      {"quant_*", compute_quantized_operations, ONE, {}, Limits::Which::FIRST},
  };
}

}  // namespace kinema::verification
