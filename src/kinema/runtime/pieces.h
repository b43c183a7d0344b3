#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kinema/graph/graph.h"
#include "kinema/pjrt/client.h"
#include "kinema/runtime/program.h"

namespace kinema::runtime {

/// A graph that runs block by block: the operations of one block of the model (the first part of
/// their path) are a separate program, which is compiled, run and awaited separately; loops over
/// blocks run step by step on the host. So an error and its time belong to a block.
class Pieces {
 public:
  /// Compiles all pieces. `options.emit.donate` has effect if the last piece that reads an input
  /// creates the output.
  Pieces(const pjrt::Client& client, const Graph& graph, std::span<const Tensor> outputs,
         const ProgramOptions& options);
  ~Pieces();

  /// As Program::run on one device.
  std::vector<pjrt::Buffer> run(std::span<const pjrt::Buffer* const> arguments) const;

  /// The sums over all pieces; temporaries are the maximum.
  const ProgramReport& report() const { return report_; }
  /// `step.0007.blocks.3`, in the order of execution; a loop's pieces are listed once.
  std::vector<std::string> names() const;
  /// Ids of the device, as in Executable::device_ids.
  std::vector<int64_t> device_ids() const { return {device_id_}; }

 private:
  struct Level;

  std::unique_ptr<Level> level_;
  ProgramReport report_;
  int64_t device_id_;
};

}  // namespace kinema::runtime
