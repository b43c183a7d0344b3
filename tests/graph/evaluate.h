#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kinema/core/host_array.h"
#include "kinema/graph/emit.h"
#include "kinema/graph/graph.h"
#include "pjrt/cpu_plugin.h"

namespace kinema {

/// One client per number of devices for the whole test process: PJRT clients start threads.
inline const pjrt::Client& shared_client(int64_t devices = 1) {
  static std::map<int64_t, pjrt::Client> clients;
  const auto found = clients.find(devices);
  return found != clients.end() ? found->second
                                : clients.emplace(devices, pjrt::cpu_client(devices)).first->second;
}

inline int64_t device_count(const MeshAxes& mesh) {
  int64_t count = 1;
  for (const auto& [axis, size] : mesh.axes) {
    count *= size;
  }
  return count;
}

/// Replicated over all devices, with every axis stated.
inline Sharding replicated(const Shape& shape) {
  return {.dims = std::vector<std::vector<std::string>>(shape.dims.size())};
}

/// A compiled graph that takes and returns host arrays. Over a mesh every device gets the complete
/// inputs, whose sharding must be replicated, and returns complete results; those of the last
/// device are returned.
class HostProgram {
 public:
  HostProgram(const Graph& graph, std::span<const Tensor> outputs, const MeshAxes& mesh = {},
              EmitOptions options = {})
      : devices_(device_count(mesh)) {
    options.mesh = mesh;
    for (const Tensor output : outputs) {
      options.output_shardings.push_back(replicated(output.shape()));
    }
    executable_.emplace(client().compile(emit(graph, outputs, options), {.partitions = devices_}));
  }

  std::vector<HostArray> operator()(std::span<const HostArray> inputs) const {
    std::vector<std::vector<pjrt::Buffer>> buffers;
    std::vector<std::vector<const pjrt::Buffer*>> arguments;
    for (const int64_t id : executable_->device_ids()) {
      auto& on_device = buffers.emplace_back();
      for (const HostArray& input : inputs) {
        on_device.push_back(client().to_device(input, client().device(id)));
      }
      auto& pointers = arguments.emplace_back();
      for (const pjrt::Buffer& buffer : on_device) {
        pointers.push_back(&buffer);
      }
    }
    const auto everywhere = executable_->execute_all(arguments);
    std::vector<HostArray> results;
    for (const pjrt::Buffer& result : everywhere.back()) {
      results.push_back(result.to_host());
    }
    return results;
  }
  const pjrt::Executable& executable() const { return *executable_; }

 private:
  const pjrt::Client& client() const { return shared_client(devices_); }

  int64_t devices_;
  std::optional<pjrt::Executable> executable_;
};

/// Compiles `outputs` and runs them once on the CPU plugin; inputs in the graph's order.
inline std::vector<HostArray> evaluate(const Graph& graph, std::span<const Tensor> outputs,
                                       std::span<const HostArray> inputs = {},
                                       const MeshAxes& mesh = {}) {
  return HostProgram(graph, outputs, mesh)(inputs);
}

}  // namespace kinema
