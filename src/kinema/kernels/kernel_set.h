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

/// Kernels of our own. Each platform has a folder here and a line in kernel_set.cpp.
namespace kinema::kernels {

/// What a program is compiled for.
struct Target {
  /// As plugins call it: `cpu`, `cuda`, `tpu`.
  std::string platform;
  /// The kind of its devices, as plugins ("TPU v6 lite") or their makers ("TPU v6e") call it; empty
  /// where nobody has said.
  std::string chip = {};
  /// Without axes: one device. Over a mesh a kernel can stand inside manual regions only
  /// (graph/manual.h), whose body works on one device's parts: Emitter::manual_depth() tells a
  /// lowering where it is. Elsewhere it would be opaque to the partitioner.
  MeshAxes mesh = {};
};

/// Which kernel attention in blocks gets on GPUs.
struct GpuAttention {
  enum class Kernel : uint8_t {
    AUTO,       // the first of these that takes the shape
    CUDNN,      // cuDNN's
    CUDNN_FP8,  // the same, forward with q, k, v and weights in 8 bits where there are many keys
    TRITON,     // ours
    BLOCKWISE,  // the compiler's own operations
  };
  Kernel kernel = Kernel::AUTO;
  /// A shape that CUDNN, CUDNN_FP8 or TRITON does not take is an Error; false: it is computed
  /// blockwise.
  bool must = true;
  bool operator==(const GpuAttention&) const = default;
};

/// The word of a configuration: `auto`, `cudnn`, ...
std::string_view word_of(GpuAttention::Kernel kernel);

struct KernelOptions {
  /// False: no kernels, but the flags that the target wants all the same.
  bool use = true;
  /// Kernels say in recordings (core/trace.h) when they run, under the model's path.
  bool trace = false;
  GpuAttention gpu_attention = {};
  /// GPUs: `fused("rms_norm_rotate")` is a kernel too.
  bool norm_rotation = true;
};

/// A kernel that a program calls by its name.
struct Handler {
  std::string name;
  void* handler = nullptr;        // an XLA_FFI_Handler*
  std::string platform = "Host";  // as Plugin::register_ffi_handler takes it
};

/// A target's kernels: how they come into a program's text, and what must be done before that text
/// is compiled and run.
struct KernelSet {
  /// For EmitOptions; empty: none.
  Lowering lowering;
  /// What the text may call.
  std::vector<Handler> handlers;
  /// Compiler flags with which the compiler's own code agrees with the kernels.
  std::map<std::string, pjrt::FlagValue> flags;

  /// Makes the handlers known to the plugin that compiles or runs the program; may be called again.
  /// Throws an Error where the plugin takes none.
  void register_with(const pjrt::Plugin& plugin) const;
  /// `options` with the flags; one that it has already stays.
  pjrt::CompileOptions with_flags(pjrt::CompileOptions options) const;
};

/// The kernels of a target, for whoever compiles for it, here or ahead of a run: the same target
/// and options give the same text. Empty for a platform that has none. A CPU's are those of the
/// process's instruction set (cpu/isa.h), which is decided by the first call.
KernelSet for_target(const Target& target, const KernelOptions& options = {});

/// Bytes that kernels work in beside a program's temporaries, which its compiler does not count:
/// packed operands and tiles, on a CPU. Measured, not derived: a tenth.
int64_t working_bytes(std::string_view platform, int64_t temporaries);
/// The other way round: the temporaries of a program that has so many bytes for both.
int64_t temporaries_within(std::string_view platform, int64_t bytes);

}  // namespace kinema::kernels
