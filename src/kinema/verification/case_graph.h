#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "kinema/graph/graph.h"
#include "kinema/nn/params.h"
#include "kinema/verification/compare.h"
#include "kinema/verification/limits.h"
#include "kinema/verification/session.h"

namespace kinema::verification {

/// A graph whose inputs are tensors of a case, and whose outputs are compared with others of it by
/// the limits that the case states. `expected` of its JSON lists them.
class CaseGraph {
 public:
  /// Throws an Error where a case states no limits.
  explicit CaseGraph(const Case& c);

  const Case& the_case() const { return case_; }
  Graph& graph() { return graph_; }
  /// A tensor of the case; the same for the same name.
  Tensor input(const std::string& name);
  /// Another value of the host.
  Tensor input(const std::string& name, HostArray value);
  /// Every tensor of the case whose name begins so and that is not expected, by the rest of its
  /// name.
  std::map<std::string, Tensor> inputs(const std::string& prefix);
  /// Parameters by their specs, from `PREFIX` and their names in `tensors`.
  std::vector<Tensor> parameters(const std::vector<nn::ParamSpec>& specs,
                                 const std::function<HostArray(const std::string&)>& tensor);

  /// A value that stands for a tensor of the case.
  void expect(const std::string& name, Tensor value);
  /// A row by itself.
  void add(Row row) { rows_.push_back(std::move(row)); }
  /// Whether the case expects a tensor of this name.
  bool expects(const std::string& name) const;

  /// Runs the program and compares. What the case expects and nothing was given for is a row that
  /// failed.
  std::vector<Row> run(Session& session);

 private:
  runtime::Program program(Session& session, std::span<const Tensor> outputs) const;

  const Case& case_;
  Limits limits_;
  Graph graph_;
  std::map<std::string, Tensor> named_;
  std::vector<HostArray> values_;
  std::vector<std::pair<std::string, Tensor>> outputs_;
  std::vector<Row> rows_;
};

}  // namespace kinema::verification
