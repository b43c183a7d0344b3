#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "kinema/graph/graph.h"
#include "kinema/verification/session.h"

namespace kinema::verification {

/// Arrays of the host by name.
using NamedArrays = std::map<std::string, HostArray>;

/// A graph whose inputs and outputs have names, run again and again: outputs under the name of an
/// input are its value in the next run.
class NamedProgram {
 public:
  Graph& graph() { return graph_; }
  /// An input of this array's shape; the same for the same name.
  Tensor input(const std::string& name, const HostArray& value);
  /// Inputs for all arrays whose names begin so, by the rest of their names.
  std::map<std::string, Tensor> inputs(const std::string& prefix, const NamedArrays& values);
  void output(const std::string& name, Tensor value) { outputs_.emplace_back(name, value); }

  /// Runs with `values` by name, which may hold more; its outputs.
  NamedArrays run(const NamedArrays& values, Session& session, const std::string& name) const;

 private:
  Graph graph_;
  std::map<std::string, Tensor> inputs_;
  std::vector<std::string> order_;
  std::vector<std::pair<std::string, Tensor>> outputs_;
};

/// Puts `from` over what `into` holds.
void replace(NamedArrays& into, NamedArrays from);

}  // namespace kinema::verification
