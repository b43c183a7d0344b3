#include "kinema/kernels/kernel_call.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <utility>

#include "kinema/core/error.h"

namespace kinema::kernels {
namespace {

/// The same kernel for the compiler; layouts and the rest follow from these.
bool same(const KernelCall& a, const KernelCall& b) {
  return a.text == b.text && a.attrs.config == b.attrs.config && a.operands == b.operands &&
         a.results == b.results;
}

void collect(const Node& node, std::vector<KernelCall>& calls) {
  if (node.op != &kCustomCall) {
    return;
  }
  const auto& attrs = node.get<CustomCallAttrs>();
  const auto* text = std::any_cast<KernelText>(&attrs.kernel);
  if (text == nullptr) {
    return;
  }
  KernelCall call{.text = *text, .results = node.results, .attrs = attrs};
  for (const Tensor x : node.inputs) {
    call.operands.push_back(x.shape());
  }
  if (std::ranges::none_of(calls, [&](const KernelCall& known) { return same(known, call); })) {
    calls.push_back(std::move(call));
  }
}

}  // namespace

Lowering collecting(Lowering lowering, std::shared_ptr<std::vector<KernelCall>> calls) {
  return
      [lowering = std::move(lowering), calls = std::move(calls)](const Node& node, Emitter& out) {
        collect(node, *calls);
        return lowering && lowering(node, out);
      };
}

std::string program_of(std::span<const KernelCall> calls) {
  Graph graph;
  std::vector<Tensor> outputs;
  for (const KernelCall& call : calls) {
    std::vector<Tensor> operands;
    for (const Shape& shape : call.operands) {
      operands.push_back(graph.input(shape));
    }
    const std::vector<Tensor> results = custom_call(std::move(operands), call.results, call.attrs);
    outputs.insert(outputs.end(), results.begin(), results.end());
  }
  return emit(graph, outputs);
}

void write_kernel_texts(const std::filesystem::path& folder, std::span<const KernelCall> calls) {
  std::error_code ignored;  // shows in what follows
  std::filesystem::create_directories(folder, ignored);
  std::map<std::string, int> written;
  for (size_t i = 0; i < calls.size(); ++i) {
    const KernelText& each = calls[i].text;
    const auto is_it = [&](const KernelCall& other) { return other.text == each; };
    if (std::ranges::any_of(calls.first(i), is_it)) {
      continue;  // on other shapes, or with other memory
    }
    const int number = ++written[each.name];
    const std::string name = number == 1 ? each.name : fmt::format("{}_{}", each.name, number);
    const bool mosaic = each.language == KernelText::Language::MOSAIC;
    const std::filesystem::path path = folder / (name + (mosaic ? ".mosaic.mlir" : ".ttir.mlir"));
    std::ofstream file(path, std::ios::binary);
    file << each.text;
    check(static_cast<bool>(file.flush()), "[kernels] the text of {} cannot be written to {}",
          each.name, path.string());
  }
}

}  // namespace kinema::kernels
