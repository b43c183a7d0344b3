#include "kinema/planning/minimum_memory.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "kinema/graph/body.h"
#include "kinema/graph/ops/attrs.h"

namespace kinema::planning {
namespace {

int64_t devices_of(const MeshAxes& mesh) {
  int64_t devices = 1;
  for (const auto& [name, size] : mesh.axes) {
    devices *= size;
  }
  return devices;
}

/// Bytes of the part on each device.
int64_t part_bytes(const Shape& shape, const Sharding& sharding, const MeshAxes& mesh) {
  const std::map<std::string, int64_t> sizes(mesh.axes.begin(), mesh.axes.end());
  int64_t parts = 1;
  for (const std::vector<std::string>& axes : sharding.dims) {
    for (const std::string& axis : axes) {
      const auto found = sizes.find(axis);
      parts *= found == sizes.end() ? 1 : found->second;
    }
  }
  return shape.bytes() / parts;
}

/// The body of a node, or null.
const Body* body_of(const Node& node) {
  const auto* body = std::any_cast<std::shared_ptr<Body>>(&node.attrs);
  return body == nullptr ? nullptr : body->get();
}

bool is_on_host(Tensor x) { return x.node().op == &kPlace && x.node().get<bool>(); }

/// Stacked values of a loop that are read before the program ends, without those that overwrite
/// others.
int64_t stack_bytes(const Node& node, const Body& body, const std::set<TensorKey>& read,
                    bool host_memory) {
  int64_t bytes = 0;
  for (size_t i = body.carries; i < node.results.size(); ++i) {
    const bool in_place = body.in_place.contains(i - body.carries);
    const bool is_read = read.contains({&node, static_cast<int64_t>(i)});
    if (is_read && !in_place && !(host_memory && is_on_host(body.outputs[i]))) {
      bytes += node.results[i].bytes();
    }
  }
  return bytes;
}

/// The maximum over all loops on which the outputs depend, including nested ones.
int64_t largest_stacks(const Graph& graph, std::span<const Tensor> outputs, bool host_memory) {
  std::vector<bool> needed(graph.nodes().size(), false);
  for (const Tensor x : outputs) {
    needed[static_cast<size_t>(x.node().id)] = true;
  }
  std::set<TensorKey> read;  // by another node
  int64_t most = 0;
  for (size_t id = needed.size(); id-- > 0;) {
    const Node& node = graph.nodes()[id];
    if (!needed[id]) {
      continue;
    }
    for (const Tensor x : node.inputs) {
      needed[static_cast<size_t>(x.node().id)] = true;
      read.insert(key_of(x));
    }
    if (const Body* body = body_of(node)) {
      const int64_t own = node.op == &kScan ? stack_bytes(node, *body, read, host_memory) : 0;
      most = std::max({most, own, largest_stacks(*body->graph, body->outputs, host_memory)});
    }
  }
  return most;
}

}  // namespace

MinimumMemory minimum_memory(const Graph& graph, std::span<const Tensor> outputs,
                             const MeshAxes& mesh, bool host_memory) {
  MinimumMemory out;
  for (const Tensor x : graph.inputs()) {
    const auto& input = x.node().get<InputAttrs>();
    if (!host_memory || input.memory == Memory::DEVICE) {
      out.arguments += part_bytes(x.shape(), input.sharding, mesh);
    }
  }
  out.stacks = largest_stacks(graph, outputs, host_memory) / devices_of(mesh);
  return out;
}

}  // namespace kinema::planning
