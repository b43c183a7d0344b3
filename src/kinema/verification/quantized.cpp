// Single operations under quantization: layers, attention, a convolution over patches.
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/graph/autodiff.h"
#include "kinema/nn/attention.h"
#include "kinema/nn/linear.h"
#include "kinema/nn/patch_embedding.h"
#include "kinema/nn/quantized.h"
#include "kinema/verification/compare.h"
#include "kinema/verification/limits.h"
#include "kinema/verification/quantization.h"
#include "kinema/verification/session.h"

namespace kinema::verification {
namespace {

using nn::QuantizedProduct;

/// One program for the whole case: what it reads, and what it computes that the case has values of.
class Operations {
 public:
  explicit Operations(const Case& c) : case_(c), quantization_(quantization_of(c.about())) {}

  std::vector<Row> run(Session& session) {
    for (const char* prefix : {"linear.", "zeros.", "bf16."}) {
      linear(prefix, quantization_.product());
    }
    if (const io::Json* calibrations = case_.about().find("calibrations")) {
      for (const auto& [name, keys] : calibrations->members()) {
        linear(name + ".", calibrated(keys));
      }
    }
    for (const bool original : {false, true}) {
      QuantizedProduct how = quantization_.product();
      how.original_residuals = original;
      const std::string inside = original ? "original." : "";
      if (original) {
        linear_gradients("linear.", inside, how);
      }
      mlp(inside, how);
    }
    attention();
    patches();
    return compared(session);
  }

 private:
  bool has(const std::string& name) const { return case_.has(name); }

  Tensor input(const std::string& name) {
    const auto known = known_.find(name);
    if (known != known_.end()) {
      return known->second;
    }
    arguments_.push_back(case_.tensor(name));
    return known_[name] = graph_.input(arguments_.back().shape, name);
  }
  void output(const std::string& name, Tensor value) {
    if (has(name)) {
      names_.push_back(name);
      outputs_.push_back(value);
    }
  }
  /// dNAME for each operand of y.
  void gradients_of(const std::string& prefix, Tensor y, Tensor dy,
                    const std::vector<std::pair<std::string, Tensor>>& operands) {
    std::vector<Tensor> wrt;
    for (const auto& [name, tensor] : operands) {
      wrt.push_back(tensor);
    }
    const std::vector<Tensor> grads = pull_back(std::vector{y}, std::vector{dy}, wrt);
    for (size_t i = 0; i < grads.size(); ++i) {
      output(prefix + operands[i].first, grads[i]);
    }
  }

  QuantizedProduct calibrated(const io::Json& keys) const {
    const auto read = [&](const char* key) { return nn::calibration(keys.at(key).as_string()); };
    QuantizedProduct how = quantization_.product();
    how.weight = read("weight_quantization_calibration_method");
    how.activation = read("act_quantization_calibration_method");
    how.gradient = read("bwd_quantization_calibration_method");
    return how;
  }

  /// Operands that a part does not have are those of `linear`.
  Tensor operand(const std::string& prefix, const char* name) {
    return input(has(prefix + name) ? prefix + name : std::string("linear.") + name);
  }

  void linear(const std::string& prefix, const QuantizedProduct& how) {
    if (case_.names(prefix).empty()) {
      return;
    }
    const Tensor x = operand(prefix, "x");
    const Tensor w = operand(prefix, "weight");
    output(prefix + "y", nn::linear(x, w, operand(prefix, "bias"), kPrecision, {}, how));
    linear_gradients(prefix, "", how);
    const auto axes = [&](Tensor t) {
      return how.per_tensor ? std::vector<int64_t>() : std::vector{t.rank() - 1};
    };
    const nn::Codes xs = nn::quantize(x, how.codes, axes(x), how.activation);
    const nn::Codes ws = nn::quantize(w, how.codes, axes(w), how.weight);
    output(prefix + "x_codes", xs.values);
    output(prefix + "x_scale", xs.scale);
    output(prefix + "weight_codes", ws.values);
    output(prefix + "weight_scale", ws.scale);
    if (how.gradient_codes) {
      const Tensor dy = operand(prefix, "dy");
      const auto of_gradient = [&](const nn::Codes& other) {
        return nn::quantize(dy * reshape(other.scale, {}), *how.gradient_codes, {}, how.gradient);
      };
      output(prefix + "dy_codes", of_gradient(ws).values);
      output(prefix + "dy_scale_for_dx", of_gradient(ws).scale);
      output(prefix + "dy_scale_for_dweight", of_gradient(xs).scale);
    }
  }

  void linear_gradients(const std::string& prefix, const std::string& inside,
                        const QuantizedProduct& how) {
    const Tensor x = operand(prefix, "x");
    const Tensor w = operand(prefix, "weight");
    const Tensor b = operand(prefix, "bias");
    gradients_of(prefix + inside, nn::linear(x, w, b, kPrecision, {}, how), operand(prefix, "dy"),
                 {{"dx", x}, {"dweight", w}, {"dbias", b}});
  }

  void mlp(const std::string& inside, const QuantizedProduct& how) {
    if (!has("mlp.x")) {
      return;
    }
    const std::string prefix = "mlp.";
    const Tensor x = input(prefix + "x");
    std::vector<std::pair<std::string, Tensor>> operands{{"dx", x}};
    Tensor y = x;
    for (const std::string layer : {"linear_1.", "linear_2."}) {
      const Tensor w = input(prefix + layer + "weight");
      const Tensor b = input(prefix + layer + "bias");
      operands.insert(operands.end(), {{layer + "dweight", w}, {layer + "dbias", b}});
      y = nn::linear(layer == "linear_1." ? y : gelu_tanh(y), w, b, kPrecision, {}, how);
    }
    output(prefix + inside + "y", y);
    gradients_of(prefix + inside, y, input(prefix + "dy"), operands);
  }

  /// [heads, length, dim]: heads as samples.
  void attention() {
    if (!has("attention.q")) {
      return;
    }
    const auto one_head = [](Tensor x) { return expand_dims(x, Axis(2)); };
    const Tensor q = input("attention.q");
    const Tensor k = input("attention.k");
    const Tensor v = input("attention.v");
    const Tensor y =
        squeeze(nn::attention(one_head(q), one_head(k), one_head(v),
                              {.precision = kPrecision,
                               .scale = case_.about().at("attention_scale").as_number(),
                               .quantized = quantization_.product()}),
                Axis(2));
    output("attention.y", y);
    gradients_of("attention.", y, input("attention.dy"), {{"dq", q}, {"dk", k}, {"dv", v}});
  }

  void patches() {
    if (!has("conv.x")) {
      return;
    }
    const Tensor x = input("conv.x");
    const Tensor w = input("conv.weight");
    const Tensor b = input("conv.bias");
    const Tensor dy = input("conv.dy");
    nn::Binder binder([&](const std::string&) { return quantization_.product(); });
    binder.add("conv.weight", w);
    binder.add("conv.bias", b);
    const nn::PatchEmbedding embed(nn::Params(binder, "conv"), w.dim(1), w.dim(0),
                                   {w.dim(2), w.dim(3), w.dim(4)});
    const Tensor tokens = embed(x, kPrecision);
    const Tensor y = transpose(
        reshape(tokens, {dy.dim(0), dy.dim(2), dy.dim(3), dy.dim(4), dy.dim(1)}), {0, 4, 1, 2, 3});
    output("conv.y", y);
    gradients_of("conv.", y, dy, {{"dx", x}, {"dweight", w}, {"dbias", b}});
  }

  std::vector<Row> compared(Session& session) {
    std::vector<pjrt::Buffer> buffers;
    for (const HostArray& argument : arguments_) {
      buffers.push_back(session.client().to_device(argument));
    }
    const std::vector<pjrt::Buffer> results =
        session.program(graph_, outputs_, case_.name()).run(std::span<const pjrt::Buffer>(buffers));
    const Limits limits(case_.about());
    std::vector<Row> rows;
    for (size_t i = 0; i < results.size(); ++i) {
      rows.push_back(compare(case_.name(), names_[i], results[i].to_host(), case_.tensor(names_[i]),
                             limits.of(names_[i])));
    }
    return rows;
  }

  static constexpr Precision kPrecision = Precision::HIGHEST;

  const Case& case_;
  nn::Quantization quantization_;
  Graph graph_;
  std::vector<HostArray> arguments_;
  std::map<std::string, Tensor> known_;
  std::vector<std::string> names_;
  std::vector<Tensor> outputs_;
};

}  // namespace

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

std::vector<Row> quantized_rows(const Case& c, Session& session) {
  return Operations(c).run(session);
}

}  // namespace kinema::verification
