#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kinema/graph/emit.h"
#include "kinema/pjrt/compile_options.h"
#include "kinema/pjrt/plugin.h"

/// Our own kernels. Each platform has a folder here and a line in kernel_set.cpp.
namespace kinema::kernels {

/// The compile target of a program.
struct Target {
  /// The plugin's name for it: `cpu`, `cuda`, `tpu`.
  std::string platform;
  /// The kind of its devices, as named by plugins ("TPU v6 lite") or makers ("TPU v6e"); empty if
  /// unknown.
  std::string chip = {};
  /// Without axes: one device. Over a mesh, kernels are only possible inside manual regions
  /// (graph/manual.h), whose body works on one device's shards; Emitter::manual_depth() tells a
  /// lowering where it is. Elsewhere a kernel would be opaque to the partitioner.
  MeshAxes mesh = {};
};

/// The kernel of blockwise attention on GPUs.
struct GpuAttention {
  enum class Kernel : uint8_t {
    AUTO,       // the first of these that supports the shape
    CUDNN,      // cuDNN's
    CUDNN_FP8,  // the same; forward with q, k, v and weights in 8 bits if there are many keys
    TRITON,     // our own
    BLOCKWISE,  // the compiler's own operations
  };
  Kernel kernel = Kernel::AUTO;
  /// If CUDNN, CUDNN_FP8 or TRITON does not support a shape: an Error; false: compute it blockwise.
  bool must = true;
  bool operator==(const GpuAttention&) const = default;
};

/// The word in a configuration: `auto`, `cudnn`, ...
std::string_view word_of(GpuAttention::Kernel kernel);

struct KernelOptions {
  /// False: no kernels, but still the flags that the target needs.
  bool use = true;
  /// Kernels add their runs to recordings (core/trace.h) under the model path.
  bool trace = false;
  GpuAttention gpu_attention = {};
  /// GPUs: also replace `fused("rms_norm_rotate")` by a kernel.
  bool norm_rotation = true;
};

/// A kernel that a program calls by name.
struct Handler {
  std::string name;
  void* handler = nullptr;        // an XLA_FFI_Handler*
  std::string platform = "Host";  // for Plugin::register_ffi_handler
};

/// A target's kernels: how to write them into a program's text, and what to do before that text is
/// compiled and run.
struct KernelSet {
  /// For EmitOptions; empty: none.
  Lowering lowering;
  /// The kernels that the text may call.
  std::vector<Handler> handlers;
  /// Compiler flags that make the compiler's own code agree with the kernels.
  std::map<std::string, pjrt::FlagValue> flags;

  /// Registers the handlers with the plugin that compiles or runs the program; may be called again.
  /// Throws an Error if the plugin has no support for handlers.
  void register_with(const pjrt::Plugin& plugin) const;
  /// `options` with the flags added; a flag that is already set stays.
  pjrt::CompileOptions with_flags(pjrt::CompileOptions options) const;
};

/// The kernels of a target, for compiling here or ahead of time: equal target and options give
/// equal text. Empty for a platform without kernels. CPU kernels use the process's instruction set
/// (cpu/isa.h), which the first call fixes.
KernelSet for_target(const Target& target, const KernelOptions& options = {});

/// Bytes that kernels need in addition to a program's temporaries and that its compiler does not
/// count: packed operands and tiles on a CPU. Measured, not derived: a tenth.
int64_t working_bytes(std::string_view platform, int64_t temporaries);
/// The inverse: the temporaries of a program that may use `bytes` for both.
int64_t temporaries_within(std::string_view platform, int64_t bytes);

}  // namespace kinema::kernels
