#include "kinema/kernels/cpu/kernel_set.h"

#include "kinema/kernels/cpu/handlers.h"
#include "kinema/kernels/cpu/isa.h"
#include "kinema/kernels/cpu/lowering.h"

namespace kinema::kernels {
namespace {

constexpr const char* kXnnpackFlag = "xla_cpu_use_xnnpack";

}  // namespace

std::vector<Handler> cpu_handlers() {
  return {{kDotTarget, dot_handler()},
          {kConvolutionTarget, convolution_handler()},
          {kActivatedConvolutionTarget, activated_convolution_handler()},
          {kAttentionTarget, attention_handler()},
          {kAttentionBackwardTarget, attention_backward_handler()},
          {kTracedDotTarget, traced_dot_handler()},
          {kTracedConvolutionTarget, traced_convolution_handler()},
          {kTracedActivatedConvolutionTarget, traced_activated_convolution_handler()},
          {kTracedAttentionTarget, traced_attention_handler()},
          {kTracedAttentionBackwardTarget, traced_attention_backward_handler()},
          {kBarrierTarget, barrier_handler()},
          {kColumnSumsTarget, column_sums_handler()},
          {kAdamWTarget, adamw_handler()},
          {kGradientSizesTarget, gradient_sizes_handler()}};
}

KernelSet cpu_kernel_set(const Target& target, const KernelOptions& options) {
  KernelSet out;
  // XLA's XNNPACK products cache a packed weight under its address, and would keep using it after
  // an in-place update of the weight.
  out.flags.emplace(kXnnpackFlag, false);
  if (isa() != machine_isa()) {
    out.flags.emplace(kIsaFlag, xla_isa(isa()));
  }
  if (options.use && target.mesh.axes.empty()) {
    out.lowering = cpu_lowering({.trace = options.trace});
    out.handlers = cpu_handlers();
  }
  return out;
}

}  // namespace kinema::kernels
