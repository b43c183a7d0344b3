#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kinema/graph/graph.h"
#include "kinema/pjrt/buffer.h"
#include "kinema/pjrt/client.h"
#include "kinema/runtime/program.h"

/// The programs of a graph's pieces (pieces.h).
namespace kinema::runtime {

/// A value on the device, owned by a piece or by the caller.
using Value = std::shared_ptr<pjrt::Buffer>;

/// Names programs by their order, compiles them and adds their costs to `report`.
class PartCompiler {
 public:
  PartCompiler(const pjrt::Client& client, const ProgramOptions& options, ProgramReport& report);

  std::unique_ptr<Program> operator()(const Graph& graph, std::span<const Tensor> outputs,
                                      const std::string& block,
                                      std::map<int64_t, int64_t> donate = {});

 private:
  const pjrt::Client& client_;
  ProgramOptions options_;
  ProgramReport& report_;
  int count_ = 0;
};

/// Runs a program and waits for its results.
std::vector<Value> run_program(const Program& program, std::span<const Value> arguments);

/// Programs that convert a loop's stacked values, [length, ...], to slices, and back.
std::unique_ptr<Program> compile_split(const Shape& stack, PartCompiler& compile);
std::unique_ptr<Program> compile_join(const Shape& stack, PartCompiler& compile);

}  // namespace kinema::runtime
