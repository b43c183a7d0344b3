#include "kinema/kernels/gpu/epilogue.h"

#include <array>
#include <optional>

#include "kinema/graph/ops.h"
#include "kinema/graph/ops/attrs.h"
#include "kinema/kernels/rewrite.h"
#include "kinema/kernels/rounded_product.h"

namespace kinema::kernels {
namespace {

bool is_half(DType dtype) { return dtype == DType::BF16 || dtype == DType::F16; }

/// The half-precision input of a conversion to f32, or `wide` itself.
Tensor before_widening(Tensor wide, DType dtype) {
  const Node& node = wide.node();
  return node.op == &kConvert && node.shape(0).dtype == dtype ? node.input(0) : Tensor();
}

/// convert(dot(x, w) + broadcast(convert(bias))), all but the sums in one half-precision dtype.
struct Biased {
  const Node* dot;
  Tensor bias;                    // [out], half precision
  const BroadcastAttrs* repeats;  // from the bias to the product's sizes
};

std::optional<Biased> biased(const Node& convert, const Emitter& out) {
  const std::optional<RoundedProduct> found = rounded_product(convert, out);
  if (!found || !found->bias) {
    return std::nullopt;
  }
  const Tensor bias = before_widening(found->bias, convert.results[0].dtype);
  return bias ? std::optional(Biased{found->dot, bias, found->repeats}) : std::nullopt;
}

void write_biased(const Node& node, const Biased& found, Emitter& out) {
  const std::array inputs{found.dot->input(0), found.dot->input(1), found.bias};
  const auto& attrs = found.dot->get<DotAttrs>();
  emit_replacement(node, inputs, out, [&](std::span<const Tensor> in) -> std::vector<Tensor> {
    const Tensor y = dot_general(in[0], in[1], attrs.dims, attrs.precision, in[0].dtype());
    return {y + broadcast_in_dim(in[2], found.repeats->dims, found.repeats->axes)};
  });
}

/// GELU (tanh form) as XLA's GemmRewriter matches it: exactly these operations in this order, all
/// in the product's dtype.
Tensor known_gelu(Tensor x) {
  constexpr double kScale = 0.79788456080286535588;  // sqrt(2 / pi)
  constexpr double kCubic = 0.044715;
  const Tensor u = kScale * (x + kCubic * (x * (x * x)));
  return x * (0.5 * (1.0 + tanh(u)));
}

/// Whether `x` is a product with a bias.
bool is_biased_product(Tensor x, const Emitter& out) {
  return x.node().op == &kConvert && out.uses(x) == 1 && biased(x.node(), out);
}

/// convert(convert(x) + convert(product) * broadcast(gate)), with one gate value per channel.
struct Gated {
  Tensor x;
  Biased product;
  Tensor gate;
};

std::optional<Gated> gated(const Node& convert, const Emitter& out) {
  const DType dtype = convert.results[0].dtype;
  const Tensor sum = convert.input(0);
  if (!is_half(dtype) || sum.node().op != &kAdd || out.uses(sum) != 1) {
    return std::nullopt;
  }
  const Tensor x = before_widening(sum.node().input(0), dtype);
  const Node& product = sum.node().input(1).node();
  if (!x || product.op != &kMultiply || product.results[0].dtype != DType::F32) {
    return std::nullopt;
  }
  const Tensor y = before_widening(product.input(0), dtype);
  const Node& wide = product.input(1).node();
  if (!y || y.node().op != &kConvert || out.uses(y) != 1 || wide.op != &kBroadcast) {
    return std::nullopt;
  }
  const std::optional<Biased> found = biased(y.node(), out);
  const Tensor gate = wide.input(0);
  const bool is_of_channels = found && gate.shape().elements() == found->bias.dim(0) &&
                              gate.dim(gate.rank() - 1) == found->bias.dim(0) &&
                              wide.get<BroadcastAttrs>().axes.back() == y.rank() - 1;
  return is_of_channels ? std::optional(Gated{x, *found, gate}) : std::nullopt;
}

/// Multiplies weights and bias by the gate in f32 and rounds them to half precision: about as
/// accurate as rounding the product before its gate. Sum and product then become one call.
void write_gated(const Node& node, const Gated& found, Emitter& out) {
  const Biased& product = found.product;
  const std::array inputs{found.x, product.dot->input(0), product.dot->input(1), product.bias,
                          found.gate};
  const auto& attrs = product.dot->get<DotAttrs>();
  emit_replacement(node, inputs, out, [&](std::span<const Tensor> in) -> std::vector<Tensor> {
    const DType dtype = in[0].dtype();
    const auto wide = [](Tensor x) { return convert(x, DType::F32); };
    const Tensor gate = reshape(in[4], in[3].shape().dims);
    // w [out, in] or [in, out]
    const int64_t along = attrs.dims.rhs_contract[0] == 1 ? 0 : 1;
    const Tensor w =
        convert(wide(in[2]) * broadcast_in_dim(gate, in[2].shape().dims, {along}), dtype);
    const Tensor bias = convert(wide(in[3]) * gate, dtype);
    const Tensor y = dot_general(in[1], w, attrs.dims, attrs.precision, dtype);
    return {y + broadcast_in_dim(bias, product.repeats->dims, product.repeats->axes) + in[0]};
  });
}

}  // namespace

bool write_epilogue(const Node& node, Emitter& out) {
  if (node.op == &kConvert) {
    if (const auto found = gated(node, out)) {
      write_gated(node, *found, out);
      return true;
    }
    const auto found = biased(node, out);
    if (found) {
      write_biased(node, *found, out);
    }
    return found.has_value();
  }
  if (node.op != &kGeluTanh || !is_biased_product(node.input(0), out)) {
    return false;
  }
  emit_replacement(node, out, [](std::span<const Tensor> in) -> std::vector<Tensor> {
    return {known_gelu(in[0])};
  });
  return true;
}

}  // namespace kinema::kernels
