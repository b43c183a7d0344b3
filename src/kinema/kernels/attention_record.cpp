#include "kinema/kernels/attention_record.h"

#include <fmt/format.h>

#include <any>
#include <utility>

#include "kinema/graph/body.h"
#include "kinema/graph/custom_call.h"
#include "kinema/kernels/settings.h"

namespace kinema::kernels {
namespace {

/// What a node computes; empty where that is not attention.
std::string attention_of(const Node& node) {
  if (node.op != &kCall) {
    return "";
  }
  const Body& body = *node.get<std::shared_ptr<Body>>();
  const bool forward = std::any_cast<FlashAttentionSettings>(&body.settings) != nullptr;
  const bool backward = std::any_cast<FlashAttentionBackwardSettings>(&body.settings) != nullptr;
  if (!forward && !backward) {
    return "";
  }
  const Shape& q = node.shape(0);
  return fmt::format("{} {} x {} {}", forward ? "forward" : "backward", kinema::to_string(q.dims),
                     node.shape(1).dims[1], kinema::to_string(q.dtype));
}

std::string kernel_of(const std::string& target) {
  return target.starts_with("__cudnn$")     ? "cuDNN"
         : target == "__gpu$xla.gpu.triton" ? "Triton"
         : target == "tpu_custom_call"      ? "Mosaic"
                                            : target;
}

}  // namespace

Lowering recorded(Lowering lowering, std::shared_ptr<AttentionRecord> record) {
  // A call is seen before the custom calls that are written in its place.
  const auto inside = std::make_shared<std::string>();
  return [=, lowering = std::move(lowering)](const Node& node, Emitter& out) {
    if (node.op == &kCustomCall && !inside->empty()) {
      (*record)[*inside] = kernel_of(node.get<CustomCallAttrs>().target);
    }
    const std::string call = attention_of(node);
    if (call.empty()) {
      return lowering && lowering(node, out);
    }
    *inside = call;
    (*record)[call] = "CPU";  // whose kernels are not written as nodes
    const bool written = lowering && lowering(node, out);
    if (!written) {
      (*record)[call] = "blockwise";
    }
    inside->clear();
    return written;
  };
}

}  // namespace kinema::kernels
