#include "kinema/runtime/emit_for.h"

#include <memory>
#include <utility>

#include "kinema/kernels/collecting.h"

namespace kinema::runtime {

kernels::Target target_of(const pjrt::Client& client) {
  return {.platform = client.platform_name(), .chip = client.devices().front().description().kind};
}

Emitted emit_for(kernels::Target target, const Graph& graph, std::span<const Tensor> outputs,
                 const ProgramOptions& options) {
  EmitOptions emit_options = options.emit;
  target.mesh = emit_options.mesh;
  Emitted out;
  out.kernels = kernels::for_target(target, {.use = options.kernels && !emit_options.lowering,
                                             .trace = options.trace_kernels,
                                             .gpu_attention = options.gpu_attention,
                                             .norm_rotation = options.norm_rotation});
  if (!emit_options.lowering) {
    emit_options.lowering = out.kernels.lowering;
  }
  const auto texts = std::make_shared<std::vector<kernels::KernelText>>();
  const auto attention = std::make_shared<kernels::AttentionRecord>();
  emit_options.lowering =
      kernels::recorded(kernels::collecting(std::move(emit_options.lowering), texts), attention);
  emit_options.for_accelerator(has_device_memory(target.platform));
  if (target.platform == "tpu") {
    emit_options.host_byte_tiles = kTpuByteTiles;
  }
  out.text = emit(graph, outputs, emit_options);
  out.kernel_texts = std::move(*texts);
  out.attention = std::move(*attention);
  return out;
}

}  // namespace kinema::runtime
