#include "kinema/kernels/attention_record.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "kinema/graph/custom_call.h"

namespace kinema::kernels {
namespace {

std::string kernel_of(const std::string& target) {
  return target.starts_with("__cudnn$")     ? "cuDNN"
         : target == "__gpu$xla.gpu.triton" ? "Triton"
         : target == "tpu_custom_call"      ? "Mosaic"
                                            : target;
}

}  // namespace

std::vector<AttentionCall> calls_of(const AttentionRecord& record) {
  std::vector<AttentionCall> out;
  for (const AttentionUse& use : record) {
    out.push_back(use.call);
  }
  return out;
}

Lowering recorded(Lowering lowering, std::shared_ptr<AttentionRecord> record) {
  // A call is seen before the custom calls that replace it.
  const auto inside = std::make_shared<std::string>();
  return [=, lowering = std::move(lowering)](const Node& node, Emitter& out) {
    if (node.op == &kCustomCall) {
      *inside = kernel_of(node.get<CustomCallAttrs>().target);
    }
    const std::optional<AttentionCall> call = attention_call(node);
    if (!call) {
      return lowering && lowering(node, out);
    }
    *inside = "CPU";  // CPU kernels are not written as nodes
    const bool written = lowering && lowering(node, out);
    const AttentionUse use{*call, written ? *inside : "blockwise"};
    if (std::ranges::find(*record, use) == record->end()) {
      record->push_back(use);
    }
    return written;
  };
}

}  // namespace kinema::kernels
