#include "kinema/kernels/tpu/lowering.h"

#include <algorithm>
#include <any>
#include <memory>

#include "kinema/graph/body.h"
#include "kinema/graph/ops.h"
#include "kinema/graph/ops/attrs.h"
#include "kinema/kernels/rewrite.h"
#include "kinema/kernels/settings.h"
#include "kinema/kernels/tpu/flash_calls.h"
#include "kinema/kernels/tpu/tiles.h"

namespace kinema::kernels {
namespace {

/// Whether the kernels support the node's dtypes and width, and there are queries and keys.
bool covered(const Node& node) {
  const Shape& q = node.shape(0);
  const DType result = node.results[0].dtype;
  return q.rank() == 4 && q.dims[1] > 0 && node.shape(1).dims[1] > 0 &&
         flash_refusal(q.dims[3], q.dtype).empty() && flash_refusal(q.dims[3], result).empty();
}

bool write(const Node& node, Emitter& out, const TpuLoweringOptions& options) {
  const Body& body = *node.get<std::shared_ptr<Body>>();
  const auto* forward = std::any_cast<FlashAttentionSettings>(&body.settings);
  const auto* backward = std::any_cast<FlashAttentionBackwardSettings>(&body.settings);
  if ((forward == nullptr && backward == nullptr) || !covered(node)) {
    return false;
  }
  const DType result = node.results[0].dtype;
  emit_replacement(node, out, [&](std::span<const Tensor> in) {
    return forward != nullptr
               ? call_flash_forward(in, result, *forward, options.chip, options.maximum)
               : call_flash_backward(in, result, *backward, options.chip);
  });
  return true;
}

/// Swaps pairs along an axis of size two, which is slow in lanes, by a product with a permutation
/// of the last two axes merged: every part of an f32 is multiplied by 1, so nothing is rounded.
bool write_swapped_pairs(const Node& node, Emitter& out) {
  const Shape& x = node.shape(0);
  const int64_t last = x.rank() - 1;
  if (x.dtype != DType::F32 || last < 1 || node.get<ReverseAttrs>().axis != last ||
      x.dims.back() != 2) {
    return false;
  }
  const int64_t width = 2 * x.dims[static_cast<size_t>(last - 1)];
  emit_replacement(node, out, [&](std::span<const Tensor> in) -> std::vector<Tensor> {
    Dims flat(x.dims.begin(), x.dims.end() - 2);
    flat.push_back(width);
    const Shape square{DType::S32, {width, width}};
    Graph& graph = in[0].graph();
    const Tensor one = constant(graph, 1.0, {DType::S32, {width, width}});
    // The index of the pair's other element.
    const Tensor other = iota(graph, square, Axis(1)) ^ one;
    const Tensor permutation =
        convert(compare(iota(graph, square, Axis(0)), Comparison::EQ, other), DType::F32);
    return {reshape(dot_general(reshape(in[0], flat), permutation,
                                {.lhs_contract = {last - 1}, .rhs_contract = {0}},
                                Precision::HIGHEST, DType::F32),
                    x.dims)};
  });
  return true;
}

}  // namespace

Lowering tpu_lowering(const TpuLoweringOptions& options) {
  return [options](const Node& node, Emitter& out) {
    if (node.op == &kReverse) {
      return write_swapped_pairs(node, out);
    }
    const bool partitioned = options.mesh && out.manual_depth() == 0;
    return node.op == &kCall && !partitioned && write(node, out, options);
  };
}

KernelSet tpu_kernel_set(const Target& target, const KernelOptions& options) {
  KernelSet out;
  if (options.use) {
    out.lowering = tpu_lowering({.chip = target.chip, .mesh = !target.mesh.axes.empty()});
  }
  return out;
}

}  // namespace kinema::kernels
