#pragma once

#include <span>
#include <vector>

#include "core/host_array.h"
#include "graph/emit.h"
#include "graph/graph.h"
#include "pjrt/cpu_plugin.h"

namespace kinema {

/// One client for the whole test process; PJRT clients start threads.
inline const pjrt::Client& shared_client() {
  static const pjrt::Client client = pjrt::cpu_client();
  return client;
}

/// A compiled graph that takes and gives host arrays.
class HostProgram {
 public:
  HostProgram(const Graph& graph, std::span<const Tensor> outputs)
      : executable_(shared_client().compile(emit(graph, outputs))) {}

  std::vector<HostArray> operator()(std::span<const HostArray> inputs) const {
    std::vector<pjrt::Buffer> buffers;
    std::vector<const pjrt::Buffer*> arguments;
    for (const HostArray& input : inputs) {
      buffers.push_back(shared_client().to_device(input));
    }
    for (const pjrt::Buffer& buffer : buffers) {
      arguments.push_back(&buffer);
    }
    std::vector<HostArray> results;
    for (const pjrt::Buffer& result : executable_.execute(arguments)) {
      results.push_back(result.to_host());
    }
    return results;
  }
  const pjrt::Executable& executable() const { return executable_; }

 private:
  pjrt::Executable executable_;
};

/// Compiles `outputs` and runs them once on the CPU plugin; inputs in the order of the graph's.
inline std::vector<HostArray> evaluate(const Graph& graph, std::span<const Tensor> outputs,
                                       std::span<const HostArray> inputs = {}) {
  return HostProgram(graph, outputs)(inputs);
}

}  // namespace kinema
