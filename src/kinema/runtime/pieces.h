#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kinema/graph/graph.h"
#include "kinema/pjrt/client.h"
#include "kinema/runtime/program.h"

namespace kinema::runtime {

/// A graph run block by block: the operations of one block of the model (the first part of their
/// path) are a program of their own, which is compiled, run and waited for alone; loops over blocks
/// are run step by step from here. What goes wrong goes wrong in a block, and a block's time is its
/// own.
class Pieces {
 public:
  /// Compiles all of them. `options.emit.donate` counts where the last piece to read an input gives
  /// the output.
  Pieces(const pjrt::Client& client, const Graph& graph, std::span<const Tensor> outputs,
         const ProgramOptions& options);
  ~Pieces();

  /// As Program::run on one device.
  std::vector<pjrt::Buffer> run(std::span<const pjrt::Buffer* const> arguments) const;

  /// Of all together; temporaries are those of the piece with most.
  const ProgramReport& report() const { return report_; }
  /// `step.0007.blocks.3`, in the order in which they run; a loop's pieces stand there once.
  std::vector<std::string> names() const;
  /// Ids of the device, as Executable::device_ids.
  std::vector<int64_t> device_ids() const { return {device_id_}; }

 private:
  struct Level;

  std::unique_ptr<Level> level_;
  ProgramReport report_;
  int64_t device_id_;
};

}  // namespace kinema::runtime
