#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kinema/core/shape.h"
#include "kinema/pjrt/buffer.h"
#include "kinema/pjrt/event.h"
#include "kinema/pjrt/value.h"

struct PJRT_Api;
struct PJRT_Executable;
struct PJRT_LoadedExecutable;

namespace kinema::pjrt {

/// The compiler's memory figures for one device, in bytes.
struct CompiledMemory {
  int64_t code = 0;
  int64_t arguments = 0;
  int64_t outputs = 0;
  int64_t aliased = 0;  // arguments whose memory outputs reuse
  int64_t temporary = 0;
  int64_t host_arguments = 0;
  int64_t host_outputs = 0;
  int64_t host_temporary = 0;
  int64_t peak = 0;  // 0 if unknown

  /// arguments + outputs - aliased + temporary + code.
  int64_t total() const { return arguments + outputs - aliased + temporary + code; }
};

/// The optimized program from the plugin; `format` is `hlo`, `hlo_with_config` or `mlir`.
struct OptimizedProgram {
  std::string format;
  std::string bytes;
};

/// A compiled program with the compiler's data about it; not bound to devices.
class Compiled {
 public:
  Compiled(const PJRT_Api* api, PJRT_Executable* executable);
  Compiled(Compiled&& other) noexcept;
  Compiled& operator=(Compiled&& other) noexcept;
  virtual ~Compiled();  // virtual, because some owners do not know whether it is an Executable

  std::string name() const;
  /// Per-device shapes of the results.
  std::vector<Shape> output_shapes() const;
  int64_t output_count() const;
  CompiledMemory memory() const;
  /// `flops`, `bytes accessed`, on TPU `optimal_seconds`, ...; empty if the plugin has none.
  NamedValues cost() const;
  int64_t code_bytes() const;
  virtual OptimizedProgram optimized() const;
  /// The optimized program as readable HLO: one line per instruction with shape, operands and
  /// origin.
  std::string optimized_text() const;
  /// Equal for equal program, options and compiler; empty if the plugin has none.
  std::string fingerprint() const;
  /// For Client::load with the same plugin build. Throws an Error if the plugin does not support
  /// it.
  virtual std::string serialize() const;

 protected:
  const PJRT_Api* api_;

 private:
  PJRT_Executable* executable_;
};

/// A program whose collectives are calls, compiled by MultiProcessCompiler.
struct PartitionedProgram {
  OptimizedProgram optimized;       ///< before its collectives became calls
  std::vector<int64_t> device_ids;  ///< by partition
  int64_t number = 0;               ///< identifies the program in its calls
};

/// Callbacks around the runs of such a program.
class MultiProcessRun {
 public:
  virtual ~MultiProcessRun() = default;
  virtual const PartitionedProgram& program() const = 0;
  /// Before each run: waits for the previous run, because the calls of two runs would be matched
  /// with each other.
  virtual void begin() = 0;
  /// After a run was started; `done` are its events.
  virtual void started(std::vector<Event> done) = 0;
};

/// Options of one run.
struct ExecuteOptions {
  /// Arguments that must not be donated although the program would reuse their memory.
  std::vector<int64_t> keep;
};

/// A program on the devices of a client.
class Executable : public Compiled {
 public:
  Executable(std::shared_ptr<const ClientHandle> client, PJRT_LoadedExecutable* executable);
  Executable(Executable&& other) noexcept;
  Executable& operator=(Executable&& other) noexcept;
  ~Executable() override;

  void set_multi_process_run(std::shared_ptr<MultiProcessRun> across) {
    across_ = std::move(across);
  }
  OptimizedProgram optimized() const override;
  std::string serialize() const override;

  /// Ids of the devices it runs on, in the order of the lists of `execute_all`.
  std::vector<int64_t> device_ids() const;

  /// Runs on one device. Returns immediately; errors of the run are thrown when results are read.
  /// Donated arguments are deleted. Throws an Error if the plugin rejects the arguments.
  std::vector<Buffer> execute(std::span<const Buffer* const> arguments,
                              const ExecuteOptions& options = {}) const;

  /// Runs on all its devices: `arguments[d][i]` is argument i on device d; results likewise.
  std::vector<std::vector<Buffer>> execute_all(
      std::span<const std::vector<const Buffer*>> arguments,
      const ExecuteOptions& options = {}) const;

 private:
  void destroy() noexcept;

  std::shared_ptr<const ClientHandle> client_;  // shared as in Buffer
  PJRT_LoadedExecutable* loaded_;
  std::shared_ptr<MultiProcessRun> across_;  // null: the plugin does the collectives
  int64_t outputs_ = 0;
};

}  // namespace kinema::pjrt
