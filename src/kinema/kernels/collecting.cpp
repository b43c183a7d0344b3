#include "kinema/kernels/collecting.h"

#include <algorithm>
#include <any>
#include <utility>

#include "kinema/graph/custom_call.h"

namespace kinema::kernels {
namespace {

/// Adds the text of the node's kernel, if it has one.
void collect(const Node& node, std::vector<KernelText>& texts) {
  if (node.op != &kCustomCall) {
    return;
  }
  const auto* text = std::any_cast<KernelText>(&node.get<CustomCallAttrs>().kernel);
  if (text != nullptr && std::ranges::find(texts, *text) == texts.end()) {
    texts.push_back(*text);
  }
}

}  // namespace

Lowering collecting(Lowering lowering, std::shared_ptr<std::vector<KernelText>> texts) {
  return
      [lowering = std::move(lowering), texts = std::move(texts)](const Node& node, Emitter& out) {
        collect(node, *texts);
        return lowering && lowering(node, out);
      };
}

}  // namespace kinema::kernels
