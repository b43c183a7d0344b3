#include "kinema/kernels/attention_call.h"

#include <fmt/format.h>

#include <any>
#include <memory>

#include "kinema/graph/body.h"
#include "kinema/graph/ops.h"

namespace kinema::kernels {

std::optional<AttentionCall> attention_call(const Node& node) {
  if (node.op != &kCall) {
    return std::nullopt;
  }
  const std::any& settings = node.get<std::shared_ptr<Body>>()->settings;
  const auto* forward = std::any_cast<FlashAttentionSettings>(&settings);
  const auto* backward = std::any_cast<FlashAttentionBackwardSettings>(&settings);
  if (forward == nullptr && backward == nullptr) {
    return std::nullopt;
  }
  return AttentionCall{.q = node.shape(0),
                       .k = node.shape(1),
                       .result = node.results[0].dtype,
                       .backward = backward != nullptr,
                       .blocks = backward != nullptr ? backward->blocks : forward->blocks};
}

std::string description(const AttentionCall& call) {
  return fmt::format("{} {} x {} {}", call.backward ? "backward" : "forward",
                     kinema::to_string(call.q.dims), call.keys(), kinema::to_string(call.q.dtype));
}

}  // namespace kinema::kernels
