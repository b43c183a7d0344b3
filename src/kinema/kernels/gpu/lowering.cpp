#include "kinema/kernels/gpu/lowering.h"

#include <any>
#include <memory>

#include "kinema/core/error.h"
#include "kinema/graph/body.h"
#include "kinema/kernels/gpu/cudnn_attention.h"
#include "kinema/kernels/gpu/cudnn_fp8.h"
#include "kinema/kernels/gpu/epilogue.h"
#include "kinema/kernels/gpu/triton_calls.h"
#include "kinema/kernels/gpu/triton_norm.h"
#include "kinema/kernels/rewrite.h"
#include "kinema/kernels/settings.h"

namespace kinema::kernels {
namespace {

using Kernel = GpuAttention::Kernel;

/// A forward or backward attention call.
struct Call {
  const FlashAttentionSettings* forward;
  const FlashAttentionBackwardSettings* backward;
};

Call call_of(const Node& node) {
  const Body& body = *node.get<std::shared_ptr<Body>>();
  return {std::any_cast<FlashAttentionSettings>(&body.settings),
          std::any_cast<FlashAttentionBackwardSettings>(&body.settings)};
}

/// Why cuDNN does not support a call; empty if it does.
std::string cudnn_refuses(const Node& node, const Call& call, const std::string& chip) {
  if (call.backward != nullptr && !call.backward->delta_of_y) {
    return "a gradient of a gradient was given, expected attention or its gradient: blockwise "
           "computes it";
  }
  return cudnn_refusal(node.shape(0), node.shape(1), chip);
}

/// The same in 8 bits.
std::string cudnn_fp8_refuses(const Node& node, const Call& call, const std::string& chip) {
  const std::string refused = cudnn_fp8_refusal(node.shape(0), node.shape(1), chip);
  return refused.empty() ? cudnn_refuses(node, call, chip) : refused;
}

void write_cudnn(const Node& node, const Call& call, Emitter& out, const std::string& chip,
                 bool fp8) {
  const DType result = node.results[0].dtype;
  const bool lse = call.forward != nullptr && out.uses(const_cast<Node&>(node).result(1)) > 0;
  const bool narrow =
      fp8 && call.forward != nullptr && cudnn_fp8_is_faster(node.shape(1), node.inputs.size() > 3);
  emit_replacement(node, out, [&](std::span<const Tensor> in) {
    if (narrow) {
      return cudnn_flash_forward_fp8(in, result, *call.forward, chip, lse);
    }
    return call.forward != nullptr ? cudnn_flash_forward(in, result, *call.forward, chip, lse)
                                   : cudnn_flash_backward(in, result, *call.backward, chip);
  });
}

std::string triton_refuses(const Node& node, const Call& call) {
  const double scale = call.forward != nullptr ? call.forward->scale : call.backward->scale;
  return triton_refusal(node.shape(0), node.shape(1), node.results[0].dtype, scale);
}

void write_triton(const Node& node, const Call& call, Emitter& out, const std::string& chip) {
  const DType result = node.results[0].dtype;
  emit_replacement(node, out, [&](std::span<const Tensor> in) {
    return call.forward != nullptr ? triton_flash_forward(in, result, *call.forward, chip)
                                   : triton_flash_backward(in, result, *call.backward, chip);
  });
}

/// Writes a norm with rotation, if the call is one.
bool write_norm_rotate(const Node& node, Emitter& out) {
  const Body& body = *node.get<std::shared_ptr<Body>>();
  const auto* settings = std::any_cast<RmsNormRotateSettings>(&body.settings);
  const Shape& y = node.results[0];
  if (settings == nullptr || !norm_rotate_refusal(node.shape(0), y).empty()) {
    return false;
  }
  emit_replacement(
      node, out, [&](std::span<const Tensor> in) { return triton_norm_rotate(in, y, *settings); });
  return true;
}

bool write(const Node& node, Emitter& out, const GpuLoweringOptions& options) {
  if (options.norm_rotation && write_norm_rotate(node, out)) {
    return true;
  }
  const Call call = call_of(node);
  if (call.forward == nullptr && call.backward == nullptr) {
    return false;
  }
  const Kernel asked = options.attention.kernel;
  std::string refused;
  const bool fp8 = asked == Kernel::CUDNN_FP8;
  if (asked == Kernel::AUTO || asked == Kernel::CUDNN || fp8) {
    refused =
        fp8 ? cudnn_fp8_refuses(node, call, options.chip) : cudnn_refuses(node, call, options.chip);
    if (refused.empty()) {
      write_cudnn(node, call, out, options.chip, fp8);
      return true;
    }
  }
  // Triton's f32 products do not use tensor cores: only on request.
  const bool wide = node.shape(0).dtype == DType::F32;
  if (asked == Kernel::TRITON || (asked == Kernel::AUTO && !wide)) {
    refused = triton_refuses(node, call);
    if (refused.empty()) {
      write_triton(node, call, out, options.chip);
      return true;
    }
  }
  check(asked == Kernel::AUTO || asked == Kernel::BLOCKWISE || !options.attention.must,
        "[kernels] attention_gpu_kernel={} on {}: {}", word_of(asked),
        options.chip.empty() ? "a GPU" : options.chip, refused);
  return false;
}

}  // namespace

Lowering gpu_lowering(const GpuLoweringOptions& options) {
  return [options](const Node& node, Emitter& out) {
    const bool partitioned = options.mesh && out.manual_depth() == 0;
    if (partitioned) {
      return false;
    }
    return node.op == &kCall ? write(node, out, options)
                             : !options.mesh && write_epilogue(node, out);
  };
}

KernelSet gpu_kernel_set(const Target& target, const KernelOptions& options) {
  KernelSet out;
  // Triton's products support neither a bias that is a loop's slice nor GELU.
  if (target.mesh.axes.empty()) {
    out.flags.emplace("xla_gpu_enable_triton_gemm", false);
  }
  if (options.use) {
    out.lowering = gpu_lowering({.chip = target.chip,
                                 .mesh = !target.mesh.axes.empty(),
                                 .attention = options.gpu_attention,
                                 .norm_rotation = options.norm_rotation});
  }
  return out;
}

}  // namespace kinema::kernels
