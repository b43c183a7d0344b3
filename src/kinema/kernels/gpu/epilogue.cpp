#include "kinema/kernels/gpu/epilogue.h"

#include <array>
#include <optional>

#include "kinema/graph/ops.h"
#include "kinema/graph/ops/attrs.h"
#include "kinema/kernels/rewrite.h"

namespace kinema::kernels {
namespace {

bool is_half(DType dtype) { return dtype == DType::BF16 || dtype == DType::F16; }

/// convert(dot(x, w) + broadcast(convert(bias))), all but the sums in one half type.
struct Biased {
  const Node* dot;
  Tensor bias;                    // [out]
  const BroadcastAttrs* repeats;  // to the product's sizes
};

std::optional<Biased> biased(const Node& convert, const Emitter& out) {
  const DType dtype = convert.results[0].dtype;
  const Tensor sum = convert.input(0);
  if (!is_half(dtype) || sum.node().op != &kAdd || out.uses(sum) != 1) {
    return std::nullopt;
  }
  const Node& dot = sum.node().input(0).node();
  const Node& wide = sum.node().input(1).node();
  if (dot.op != &kDotGeneral || wide.op != &kBroadcast || out.uses(sum.node().input(0)) != 1) {
    return std::nullopt;
  }
  const Node& bias = wide.input(0).node();
  const auto& attrs = dot.get<DotAttrs>();
  const auto& repeats = wide.get<BroadcastAttrs>();
  const int64_t last = dot.results[0].rank() - 1;
  const bool fits = dot.shape(0).dtype == dtype && dot.shape(1).dtype == dtype &&
                    attrs.out == DType::F32 && attrs.dims.lhs_batch.empty() &&
                    bias.op == &kConvert && bias.shape(0).dtype == dtype &&
                    bias.shape(0).rank() == 1 && repeats.axes == std::vector<int64_t>{last} &&
                    bias.shape(0).dims[0] == dot.results[0].dims[static_cast<size_t>(last)];
  return fits ? std::optional(Biased{&dot, bias.input(0), &repeats}) : std::nullopt;
}

void write_biased(const Node& node, const Biased& found, Emitter& out) {
  const std::array inputs{found.dot->input(0), found.dot->input(1), found.bias};
  const auto& attrs = found.dot->get<DotAttrs>();
  write_instead(node, inputs, out, [&](std::span<const Tensor> in) -> std::vector<Tensor> {
    const Tensor y = dot_general(in[0], in[1], attrs.dims, attrs.precision, in[0].dtype());
    return {y + broadcast_in_dim(in[2], found.repeats->dims, found.repeats->axes)};
  });
}

/// x Phi(x) as XLA's GemmRewriter knows it: nothing but these operations in this order, all in the
/// product's dtype.
Tensor known_gelu(Tensor x) {
  constexpr double kScale = 0.79788456080286535588;  // sqrt(2 / pi)
  constexpr double kCubic = 0.044715;
  const Tensor u = kScale * (x + kCubic * (x * (x * x)));
  return x * (0.5 * (1.0 + tanh(u)));
}

/// The product with its bias that a value is; empty where it is none.
bool is_biased_product(Tensor x, const Emitter& out) {
  return x.node().op == &kConvert && out.uses(x) == 1 && biased(x.node(), out);
}

}  // namespace

bool write_epilogue(const Node& node, Emitter& out) {
  if (node.op == &kConvert) {
    const auto found = biased(node, out);
    if (found) {
      write_biased(node, *found, out);
    }
    return found.has_value();
  }
  if (node.op != &kGeluTanh || !is_biased_product(node.input(0), out)) {
    return false;
  }
  write_instead(node, out, [](std::span<const Tensor> in) -> std::vector<Tensor> {
    return {known_gelu(in[0])};
  });
  return true;
}

}  // namespace kinema::kernels
