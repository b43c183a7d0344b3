#include "kinema/kernels/cpu/fused_lowering.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "kinema/core/error.h"
#include "kinema/graph/body.h"
#include "kinema/kernels/cpu/attention.h"
#include "kinema/kernels/cpu/convolution.h"
#include "kinema/kernels/cpu/custom_call.h"
#include "kinema/kernels/cpu/handlers.h"
#include "kinema/kernels/cpu/kernel_gradient.h"
#include "kinema/kernels/settings.h"

namespace kinema::kernels {
namespace {

/// A `fused` node.
struct Call {
  const Node& node;
  const Body& body;

  template <typename Settings>
  const Settings& settings() const {
    const auto* out = std::any_cast<Settings>(&body.settings);
    check(out != nullptr, "[kernels] fused(\"{}\") has other settings than this kernel's",
          body.kernel);
    return *out;
  }
};

/// Whether the inputs of the node have these dtypes.
bool f32_or_bf16(const Node& node) {
  return std::ranges::all_of(node.inputs, [](const Tensor x) {
    return x.dtype() == DType::F32 || x.dtype() == DType::BF16;
  });
}

/// Updates parameter and moments in place in one pass: the compiler's own three loops would need
/// copies of them.
bool write_adamw(const Call& call, Emitter& out, const CpuLoweringOptions&) {
  const auto& settings = call.settings<AdamWSettings>();
  if (call.node.results.size() != 3 || !f32_or_bf16(call.node)) {
    return false;
  }
  write_call(
      call.node, kAdamWTarget,
      fmt::format("settings = array<f64: {:.17e}, {:.17e}, {:.17e}, {:.17e}, {:.17e}>", settings.b1,
                  settings.b2, settings.eps, settings.weight_decay, settings.max_value),
      operands_of(call.node, out), out, out.location(call.node), {.count = 3, .in_place = 3});
  return true;
}

/// One pass over the gradients without a copy: the compiler would first write them as f32.
bool write_gradient_sizes(const Call& call, Emitter& out, const CpuLoweringOptions&) {
  const auto& settings = call.settings<GradientSizesSettings>();
  if (call.node.results.size() != 2 || !f32_or_bf16(call.node)) {
    return false;
  }
  write_call(call.node, kGradientSizesTarget,
             fmt::format("rows = array<i64: {}>, max_value = {:.17e} : f64",
                         fmt::join(settings.rows, ", "), settings.max_value),
             operands_of(call.node, out), out, out.location(call.node), {.count = 2});
  return true;
}

/// A convolution that applies norm and SiLU while it reads x; their result is never stored.
bool write_activated_convolution(const Call& call, Emitter& out,
                                 const CpuLoweringOptions& options) {
  const auto& settings = call.settings<ActivatedConvolutionSettings>();
  const Node& node = call.node;
  const DType dtype = node.shape(0).dtype;
  const bool takes = (dtype == DType::F32 && options.f32) || (dtype == DType::BF16 && options.bf16);
  if (node.inputs.size() != 5 || !takes || node.shape(3).dtype != dtype) {
    return false;
  }
  const auto plan = convolution_plan(node.shape(0).dims, node.shape(3).dims, node.results[0].dims,
                                     settings.convolution);
  if (!plan || is_kernel_gradient(*plan) || plan->flops() < options.min_convolution_flops ||
      !has_fast_convolution(*plan, dtype)) {
    return false;
  }
  write_call(node, options.trace ? kTracedActivatedConvolutionTarget : kActivatedConvolutionTarget,
             fmt::format("plan = array<i64: {}>, groups = {} : i64, epsilon = {:.17e} : f64{}",
                         fmt::join(to_words(*plan), ", "), settings.groups, settings.epsilon,
                         options.trace ? traced_label(node) : ""),
             operands_of(node, out), out, out.location(node));
  return true;
}

/// Empty if the bias, if there is one, does not broadcast to [b, n, s, t].
std::optional<AttentionPlan> attention_plan(const Dims& q, const Dims& k, Tensor added) {
  AttentionPlan plan{q[0], q[1], k[1], q[2], q[3]};
  if (added) {
    const Shape& bias = added.shape();
    const Dims whole{q[0], q[2], q[1], k[1]};
    if (bias.dtype != DType::F32 || bias.rank() != 4) {
      return std::nullopt;
    }
    const Dims strides = dense_strides(bias.dims);
    for (size_t i = 0; i < 4; ++i) {
      if (bias.dims[i] != whole[i] && bias.dims[i] != 1) {
        return std::nullopt;
      }
      plan.bias[i] = bias.dims[i] == 1 ? 0 : strides[i];
    }
  }
  return plan;
}

bool covered(const AttentionPlan& plan, DType dtype, double flops,
             const CpuLoweringOptions& options) {
  return ((dtype == DType::F32 && options.f32) || (dtype == DType::BF16 && options.bf16)) &&
         plan.flops() > 0.0 && flops >= options.min_attention_flops;
}

std::string attention_config(const Node& node, const AttentionPlan& plan, double scale,
                             const CpuLoweringOptions& options) {
  return fmt::format("plan = array<i64: {}>, scale = {:.17e} : f64{}",
                     fmt::join(to_words(plan), ", "), scale,
                     options.trace ? traced_label(node) : "");
}

/// softmax(scale q k^T + bias) v and, if `results` is 2, lse.
bool write_forward(const Node& node, double scale, Tensor bias, size_t results, Emitter& out,
                   const CpuLoweringOptions& options) {
  const DType dtype = node.shape(0).dtype;
  const auto plan = attention_plan(node.shape(0).dims, node.shape(1).dims, bias);
  if (!plan || node.results[0].dtype != dtype || !covered(*plan, dtype, plan->flops(), options)) {
    return false;
  }
  write_call(node, options.trace ? kTracedAttentionTarget : kAttentionTarget,
             attention_config(node, *plan, scale, options), operands_of(node, out), out,
             out.location(node), {.count = results});
  return true;
}

bool write_attention(const Call& call, Emitter& out, const CpuLoweringOptions& options) {
  const double scale = call.settings<AttentionSettings>().scale;
  const Node& node = call.node;
  const Tensor bias = node.inputs.size() > 3 ? node.input(3) : Tensor();
  return node.results.size() == 1 && write_forward(node, scale, bias, 1, out, options);
}

bool write_flash_attention(const Call& call, Emitter& out, const CpuLoweringOptions& options) {
  const double scale = call.settings<FlashAttentionSettings>().scale;
  const Node& node = call.node;
  const size_t results = out.uses(const_cast<Node&>(node).result(1)) > 0 ? 2 : 1;
  return node.inputs.size() == 3 && write_forward(node, scale, {}, results, out, options);
}

bool write_flash_attention_backward(const Call& call, Emitter& out,
                                    const CpuLoweringOptions& options) {
  const double scale = call.settings<FlashAttentionBackwardSettings>().scale;
  const Node& node = call.node;
  const DType dtype = node.shape(0).dtype;
  const DType result = node.results[0].dtype;
  const auto plan = attention_plan(node.shape(0).dims, node.shape(1).dims, {});
  // Five products; the forward pass has two.
  if (node.inputs.size() != 7 || (result != dtype && result != DType::F32) ||
      !covered(*plan, dtype, 2.5 * plan->flops(), options)) {
    return false;
  }
  // y is for kernels that compute delta themselves.
  const std::span<const Tensor> read = std::span<const Tensor>(node.inputs).first(6);
  write_call(node, options.trace ? kTracedAttentionBackwardTarget : kAttentionBackwardTarget,
             attention_config(node, *plan, scale, options), operands_of(read, out), out,
             out.location(node), {.count = 3});
  return true;
}

struct Kernel {
  std::string_view name;
  bool (*write)(const Call& call, Emitter& out, const CpuLoweringOptions& options);
};

constexpr Kernel kKernels[] = {{"activated_convolution", write_activated_convolution},
                               {"adamw", write_adamw},
                               {"attention", write_attention},
                               {"flash_attention", write_flash_attention},
                               {"flash_attention_backward", write_flash_attention_backward},
                               {"gradient_sizes", write_gradient_sizes}};

}  // namespace

bool write_fused(const Node& node, Emitter& out, const CpuLoweringOptions& options) {
  const Body& body = *node.get<std::shared_ptr<Body>>();
  const auto* known = std::ranges::find(kKernels, body.kernel, &Kernel::name);
  return known != std::end(kKernels) && known->write({node, body}, out, options);
}

}  // namespace kinema::kernels
