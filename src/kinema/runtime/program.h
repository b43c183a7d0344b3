#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kinema/core/host_array.h"
#include "kinema/graph/emit.h"
#include "kinema/graph/graph.h"
#include "kinema/kernels/kernel_set.h"
#include "kinema/pjrt/client.h"
#include "kinema/runtime/array.h"

namespace kinema::runtime {

/// Options for compiling a graph.
struct ProgramOptions {
  /// The name in messages and in the files of a dump.
  std::string name = "program";
  /// Donations, mesh, output shardings, kernels of the target.
  EmitOptions emit = {};
  pjrt::CompileOptions compile = {};
  /// Use the target's kernels (kernels/kernel_set.h) if `emit.lowering` is empty.
  bool kernels = true;
  /// Kernels record their execution in traces (core/trace.h), with the model's path.
  bool trace_kernels = false;
  kernels::GpuAttention gpu_attention = {};
  bool norm_rotation = true;  // kernels::KernelOptions::norm_rotation
  /// False: each block of the graph is compiled, run and awaited separately (see Pieces).
  bool jit = true;
  /// Folder of compiled programs; empty compiles every time. Entries are found by content.
  std::string executable_cache = {};
  /// Maximum size of the cache, beyond which its oldest entries are removed.
  int64_t executable_cache_bytes = int64_t{8} << 30;
  /// A file of `kinema plan save_executable=`, loaded instead of compiling; throws an Error unless
  /// it contains this program. Empty: none.
  std::string saved = {};
  /// Folder for `NAME.mlir` (as emitted) and `NAME.hlo.txt` (as optimized); empty: none.
  std::string dump = {};
  /// Names of the outputs, for messages; may be empty.
  std::vector<std::string> output_names = {};
};

class Pieces;

/// The cost and results of a compilation.
struct ProgramReport {
  double emit_seconds = 0;
  double compile_seconds = 0;  // or the time to load it from the cache
  bool from_cache = false;
  int64_t text_bytes = 0;
  pjrt::CompiledMemory memory;
  pjrt::NamedValues cost;
};

/// An input or output of a program.
struct Port {
  std::string name;  // may be empty
  Shape shape;       // the complete array
  Shape shard;       // the part on one device; equal to shape if not sharded
  Sharding sharding = {};
  Memory memory = Memory::DEVICE;  // of an input
};

/// A compiled graph: its inputs and results are buffers in the order of the graph's inputs and
/// `outputs`.
class Program {
 public:
  /// Emits and compiles (or loads from the cache).
  static Program compile(const pjrt::Client& client, const Graph& graph,
                         std::span<const Tensor> outputs, const ProgramOptions& options = {});
  /// The text that `compile` would compile.
  static std::string text(const pjrt::Client& client, const Graph& graph,
                          std::span<const Tensor> outputs, const ProgramOptions& options);
  /// The same from StableHLO text; `inputs` and `outputs` are its signature. `options.emit` is
  /// ignored.
  static Program compile_text(const pjrt::Client& client, const std::string& text,
                              std::vector<Port> inputs, std::vector<Port> outputs,
                              const ProgramOptions& options = {});

  const std::vector<Port>& inputs() const { return inputs_; }
  const std::vector<Port>& outputs() const { return outputs_; }
  const ProgramReport& report() const { return report_; }
  const std::string& name() const { return name_; }
  /// Throws an Error for a program in pieces, which has several.
  const pjrt::Executable& executable() const;
  /// The programs that run one after the other if `jit` was false; else null.
  const Pieces* pieces() const { return pieces_.get(); }

  /// Runs on one device. Donated arguments are consumed: their buffers are deleted. Throws an Error
  /// if an argument is missing, deleted or not of the input's shape.
  std::vector<pjrt::Buffer> run(std::span<const pjrt::Buffer* const> arguments) const;
  /// The same from a contiguous span of buffers.
  std::vector<pjrt::Buffer> run(std::span<const pjrt::Buffer> arguments) const;
  /// Uploads, runs and downloads: for tests and small programs.
  std::vector<HostArray> run_on_host(std::span<const HostArray> arguments) const;
  /// Runs on the devices for which it was compiled (`split_over`), one or more. Arguments must have
  /// the inputs' shardings; donated ones are consumed.
  std::vector<Array> run(const Devices& devices, std::span<const Array* const> arguments) const;
  /// Runs on all devices of the program; `arguments[d][i]` is the shard of argument i on device d.
  std::vector<std::vector<pjrt::Buffer>> run_all(
      std::span<const std::vector<const pjrt::Buffer*>> arguments) const;

 private:
  Program(const pjrt::Client& client, std::optional<pjrt::Executable> executable,
          std::vector<Port> inputs, std::vector<Port> outputs, std::string name,
          ProgramReport report);
  std::vector<int64_t> device_ids() const;
  void check_arguments(std::span<const pjrt::Buffer* const> arguments) const;

  pjrt::Client client_;
  std::optional<pjrt::Executable> executable_;
  std::shared_ptr<const Pieces> pieces_;  // instead of an executable
  std::vector<Port> inputs_;
  std::vector<Port> outputs_;
  std::string name_;
  ProgramReport report_;
};

/// Configures the compilation for the devices of a mesh, in its order. The graph's inputs have
/// their shardings, and `emit.output_shardings` are those of its outputs. Changes nothing for one
/// device.
void split_over(const Devices& devices, ProgramOptions& options);

/// Compiles a graph, runs it once on the first device with host values and returns the results.
std::vector<HostArray> evaluate(const pjrt::Client& client, const Graph& graph,
                                std::span<const Tensor> outputs,
                                std::span<const HostArray> arguments = {});

}  // namespace kinema::runtime
