#include "kinema/nn/quantized.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>

#include "kinema/core/error.h"
#include "kinema/core/trimmed.h"
#include "kinema/graph/scan.h"

namespace kinema::nn {
namespace {

Tensor limit_of(Tensor x, const std::vector<int64_t>& axes, const Calibration& how) {
  switch (how.method) {
    case Calibration::Method::FIXED:
      return constant(x.graph(), how.factor, {x.dtype(), Dims(static_cast<size_t>(x.rank()), 1)});
    case Calibration::Method::RMS:
      return sqrt(mean(x * x, axes, true)) * how.factor;
    case Calibration::Method::ABSMAX:
      break;
  }
  const Tensor largest = max(abs(x), axes, true);
  return how.factor == 1.0 ? largest : largest * how.factor;
}

/// codes[b, i, j] a_scale b_scale, in this order; each scale's axes are moved to those of the
/// product.
struct ScaleAxes {
  const DotDims& dims;
  Dims product;

  /// `before` and `behind`: the number of product axes before and after, of the other operand.
  Tensor place(Tensor scale, const std::vector<int64_t>& batch,
               const std::vector<int64_t>& contract, bool first) const {
    std::vector<int64_t> order = batch;
    for (int64_t axis = 0; axis < scale.rank(); ++axis) {
      if (std::ranges::count(batch, axis) == 0 && std::ranges::count(contract, axis) == 0) {
        order.push_back(axis);
      }
    }
    const size_t kept = order.size();
    order.insert(order.end(), contract.begin(), contract.end());
    const Tensor moved = transpose(scale, order);
    Dims dims_of;
    for (size_t i = 0; i < kept; ++i) {
      dims_of.push_back(moved.dim(static_cast<int64_t>(i)));
    }
    const size_t others = product.size() - kept;
    dims_of.insert(first ? dims_of.end() : dims_of.begin() + static_cast<int64_t>(batch.size()),
                   others, 1);
    return reshape(moved, dims_of);
  }
  Tensor of_a(Tensor scale) const { return place(scale, dims.lhs_batch, dims.lhs_contract, true); }
  Tensor of_b(Tensor scale) const { return place(scale, dims.rhs_batch, dims.rhs_contract, false); }
};

/// The parameters of a product.
struct Plan {
  DotDims dims;
  QuantizedProduct how;
  Calibration a, b;
  /// Axes that share a scale; empty: all.
  std::vector<int64_t> a_axes, b_axes;
  Precision precision = Precision::DEFAULT;
  bool cuts_gradients = true;
  bool is_product = true;

  Tensor forward(const Codes& a, const Codes& b) const {
    const DType dtype = a.scale.dtype();
    const bool integers = a.values.dtype() == DType::S8;
    Tensor sums =
        dot_general(a.values, b.values, dims, Precision::DEFAULT, integers ? DType::S32 : dtype);
    sums = convert(sums, dtype);
    const ScaleAxes axes{dims, sums.shape().dims};
    return sums * axes.of_a(a.scale) * axes.of_b(b.scale);
  }

  /// fp8_full: codes of dy times the other operand's scale, so that the product needs no scale for
  /// it.
  Codes gradient_codes(Tensor dy, const Codes& other) const {
    const Tensor g = dy * reshape(other.scale, {});
    return quantize(g, *how.gradient_codes, {}, how.gradient);
  }

  Tensor gradient_of_a(Tensor dy, const Shape& a, Tensor b_original, const Codes& b) const {
    if (how.gradient_codes) {
      const Codes g = gradient_codes(dy, b);
      return dot_gradient_of_a(g.values, a, b.values, dims, Precision::DEFAULT, dy.dtype()) *
             reshape(g.scale, {});
    }
    const Tensor other = how.original_residuals ? b_original : dequantize(b);
    return dot_gradient_of_a(dy, a, other, dims, precision, dy.dtype());
  }

  Tensor gradient_of_b(Tensor dy, Tensor a_original, const Codes& a, const Shape& b) const {
    if (how.gradient_codes) {
      const Codes g = gradient_codes(dy, a);
      return dot_gradient_of_b(g.values, a.values, b, dims, Precision::DEFAULT, dy.dtype()) *
             reshape(g.scale, {});
    }
    const Tensor other = how.original_residuals ? a_original : dequantize(a);
    return dot_gradient_of_b(dy, other, b, dims, precision, dy.dtype());
  }

  /// No gradient beyond the limit, where the result does not depend on the value.
  Tensor cut(Tensor gradient, Tensor x, const Codes& codes, const Calibration& calibration) const {
    if (!cuts_gradients || !calibration.clips()) {
      return gradient;
    }
    return select(compare(abs(x), Comparison::LE, codes.limit), gradient, zeros_like(gradient));
  }
};

/// The codes are inputs of the call in addition to the operands, so that the backward pass may keep
/// either: the smaller, or one that is stored anyway.
Tensor product(Tensor a, Tensor b, const Plan& plan) {
  check(a.dtype() == b.dtype() && is_float(a.dtype()),
        "[quantize] products of {} and {}: floats of one dtype are needed", to_string(a.shape()),
        to_string(b.shape()));
  const Codes ca = quantize(a, plan.how.codes, plan.a_axes, plan.a);
  const Codes cb = quantize(b, plan.how.codes, plan.b_axes, plan.b);
  const auto codes_at = [](std::span<const Tensor> in, size_t i) {
    return Codes{in[i], in[i + 1], in[i + 2]};
  };
  const auto forward = [&](std::span<const Tensor> in) -> std::vector<Tensor> {
    return {plan.forward(codes_at(in, 2), codes_at(in, 5))};
  };
  const auto backward = [plan, codes_at](std::span<const Tensor> in, std::span<const Tensor>,
                                         std::span<const Tensor> dys) -> std::vector<Tensor> {
    const Codes a = codes_at(in, 2);
    const Codes b = codes_at(in, 5);
    std::vector<Tensor> grads(in.size());
    grads[0] = plan.cut(plan.gradient_of_a(dys[0], in[0].shape(), in[1], b), in[0], a, plan.a);
    grads[1] = plan.cut(plan.gradient_of_b(dys[0], in[0], a, in[1].shape()), in[1], b, plan.b);
    return grads;
  };
  return with_gradient({a, b, ca.values, ca.scale, ca.limit, cb.values, cb.scale, cb.limit},
                       forward, backward, plan.is_product)[0];
}

Plan linear_plan(Tensor x, const QuantizedProduct& how, Precision precision) {
  return {.dims = {.lhs_contract = {x.rank() - 1}, .rhs_contract = {1}},
          .how = how,
          .a = how.activation,
          .b = how.weight,
          .a_axes = how.per_tensor ? std::vector<int64_t>() : std::vector{x.rank() - 1},
          .b_axes = how.per_tensor ? std::vector<int64_t>() : std::vector<int64_t>{1},
          .precision = precision};
}

double number(std::string_view text, std::string_view all) {
  double value = 0.0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  check(read.ec == std::errc() && read.ptr == text.data() + text.size() && std::isfinite(value),
        "[quantization] `{}` in the calibration `{}` is not a number", text, all);
  return value;
}

}  // namespace

double code_bound(DType codes) {
  switch (codes) {
    case DType::S8:
      return 127.5;
    case DType::F8E4M3FN:
      return 448.0;
    case DType::F8E5M2:
      return 57344.0;
    default:
      fail("[quantize] {} is not a dtype of codes: s8, f8e4m3fn and f8e5m2 are", to_string(codes));
  }
}

Calibration calibration(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  });
  std::vector<double> values;
  const std::string_view all = lower;
  const size_t comma = all.find(',');
  const std::string_view method = trimmed(all.substr(0, comma), " ");
  for (size_t at = comma; at != std::string_view::npos;) {
    const size_t end = all.find(',', at + 1);
    const size_t count = end == std::string_view::npos ? end : end - at - 1;
    values.push_back(number(trimmed(all.substr(at + 1, count), " "), text));
    at = end;
  }
  const char* const kPoints =
      "needs zero points, which codes of float8 do not have\n  use absmax, absmax,F, rms,F or "
      "fixed,B";
  check(method != "minmax", "[quantization] the calibration `{}` {}", text, kPoints);
  if (method == "absmax" && values.size() <= 1) {
    const Calibration out{.factor = values.empty() ? 1.0 : values[0]};
    check(out.factor > 0.0, "[quantization] the factor of the calibration `{}` must be above 0",
          text);
    return out;
  }
  if (method == "rms" && values.size() == 1) {
    check(values[0] > 0.0, "[quantization] the factor of the calibration `{}` must be above 0",
          text);
    return {.method = Calibration::Method::RMS, .factor = values[0]};
  }
  if (method == "fixed" && (values.size() == 1 || values.size() == 2)) {
    check(values.size() == 1 || values[0] == -values[1], "[quantization] the calibration `{}` {}",
          text, kPoints);
    check(values.back() > 0.0, "[quantization] the calibration `{}` spans no range", text);
    return {.method = Calibration::Method::FIXED, .factor = values.back()};
  }
  fail(
      "[quantization] the calibration `{}` is not known\n"
      "  use absmax, absmax,F, rms,F (F times what is found), fixed,B or fixed,-B,B",
      text);
}

// The same divisions as in qwix, so that compilers treat them the same way.
Codes quantize(Tensor x, DType codes, const std::vector<int64_t>& axes, const Calibration& how) {
  const double most = code_bound(codes);
  x = stop_gradient(x);
  std::vector<int64_t> all(static_cast<size_t>(x.rank()));
  std::iota(all.begin(), all.end(), 0);
  const Tensor limit = limit_of(x, axes.empty() ? all : axes, how);
  // Divided in float32, as on CPUs: XLA turns division by a constant into multiplication by its
  // reciprocal, which in bfloat16 is off by up to one part in 512.
  Tensor scale = convert(convert(limit, DType::F32) / most, x.dtype());
  if (x.dtype() != DType::F32) {
    scale = optimization_barrier({scale})[0];  // quantize and dequantize with the same scale
  }
  const Tensor divisor = select(compare(scale, Comparison::EQ, 0.0), ones_like(scale), scale);
  Tensor q = x / divisor;
  if (codes == DType::S8) {
    q = minimum(maximum(round_even(q), -128.0), 127.0);
  } else {
    q = minimum(maximum(q, -most), most);
  }
  Tensor values = convert(q, codes);
  if (codes != DType::S8) {
    // XLA for GPUs drops a conversion that is converted back (xla_allow_excess_precision).
    values = optimization_barrier({values})[0];
  }
  return {.values = values, .scale = divisor, .limit = limit};
}

Tensor dequantize(const Codes& codes) {
  return convert(codes.values, codes.scale.dtype()) * codes.scale;
}

Tensor quantized_linear(Tensor x, Tensor w, const QuantizedProduct& how, Precision precision) {
  return product(x, w, linear_plan(x, how, precision));
}

bool stored_codes_fit(DType codes, const QuantizedProduct& how) {
  return codes == how.codes && !how.per_tensor;
}

Tensor quantized_linear_of_codes(Tensor x, Tensor codes, Tensor scale, const QuantizedProduct& how,
                                 Precision precision) {
  const Plan plan = linear_plan(x, how, precision);
  const Codes cx = quantize(x, how.codes, plan.a_axes, plan.a);
  const auto stored = [](std::span<const Tensor> in) {
    return Codes{in[3], expand_dims(in[4], Axis(1)), {}};
  };
  const auto forward = [&](std::span<const Tensor> in) -> std::vector<Tensor> {
    return {plan.forward({in[1], in[2], {}}, stored(in))};
  };
  const auto backward = [plan, stored](std::span<const Tensor> in, std::span<const Tensor>,
                                       std::span<const Tensor> dys) -> std::vector<Tensor> {
    const Tensor other = dequantize(stored(in));
    std::vector<Tensor> grads(in.size());
    grads[0] =
        dot_gradient_of_a(dys[0], in[0].shape(), other, plan.dims, plan.precision, dys[0].dtype());
    return grads;
  };
  return with_gradient({x, cx.values, cx.scale, codes, scale}, forward, backward, true)[0];
}

Tensor quantized_patches(Tensor x, Tensor w, const QuantizedProduct& how, Precision precision) {
  Plan plan = linear_plan(x, how, precision);
  if (!how.per_tensor) {
    plan.a_axes = {1, 2};
  }
  if (plan.how.gradient_codes) {
    plan.how.gradient_codes = how.codes;
  }
  plan.how.original_residuals = false;
  plan.cuts_gradients = false;
  return product(x, w, plan);
}

Tensor quantized_dot(Tensor a, Tensor b, const DotDims& dims, const QuantizedProduct& how,
                     Precision precision) {
  Plan plan{.dims = dims,
            .how = how,
            .a = how.activation,
            .b = how.activation,
            .precision = precision,
            .is_product = dims.lhs_batch.empty()};
  if (!how.per_tensor) {
    plan.a_axes = dims.lhs_contract;
    plan.b_axes = dims.rhs_contract;
  }
  return product(a, b, plan);
}

QuantizedProduct Quantization::product() const {
  QuantizedProduct out{.codes = mode == Mode::INT8 ? DType::S8 : DType::F8E4M3FN,
                       .original_residuals = original_residuals};
  if (mode == Mode::FP8_FULL) {
    out.gradient_codes = DType::F8E5M2;
    out.per_tensor = true;
    out.weight = weight;
    out.activation = activation;
    out.gradient = gradient;
  }
  return out;
}

}  // namespace kinema::nn
