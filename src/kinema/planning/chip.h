#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace kinema::planning {

/// The compiler of the program.
enum class Family : uint8_t { CPU, TPU, CUDA };

/// Parameters of XLA's compiler for an NVIDIA GPU. Sizes are bytes per multiprocessor ("core")
/// unless stated otherwise.
struct Gpu {
  int major = 0;  // compute capability
  int minor = 0;
  /// Has architecture-specific instructions (sm_90a, sm_100a, ...).
  bool accelerated = false;
  int64_t cores = 0;
  double clock_ghz = 0;         // boost
  double tensor_clock_ghz = 0;  // the clock for the published peaks of products
  double memory_clock_ghz = 0;
  int64_t l2_bytes = 0;  // of the GPU
  int64_t shared_bytes = 0;
  int64_t shared_per_block = 0;  // maximum, if requested
  int64_t threads = 0;
  int64_t blocks = 0;
  int64_t fp32_units = 0;
  int64_t half_rate = 1;  // 16-bit operations per clock of a float32 unit
  int64_t fp64_units = 0;
  int64_t tensor_fma = 0;  // bf16 multiply-adds with float32 sums per clock and tensor core
  int64_t tensor_fp64_fma = 0;
  bool fp8 = false;  // tensor cores support 8-bit floats, at twice that rate
  int64_t nvlinks = 0;
};

/// A kind of device, with the vendor's published figures for one device (not one chip: a tpu7x chip
/// is two devices).
struct Chip {
  std::string name;  // "v6e", "h100"
  Family family = Family::CPU;
  std::string kind;                   // "TPU v6e"
  int64_t devices_per_chip = 1;       // devices per chip in the plugin
  int64_t grid_axes = 1;              // TPU: axes of the network, 2 or 3
  double memory_bytes = 0;            // of device memory
  double clock = 0;                   // TPU: cycles/s of the peak
  double flops = 0;                   // bf16 products with float32 sums, FLOP/s, without sparsity
  double int8_rate = 1;               // rate of int8 products relative to bf16
  double float8_rate = 1;             // the same for 8-bit floats
  double memory_bandwidth = 0;        // bytes/s
  double interconnect_bandwidth = 0;  // to other devices, bytes/s out of one device
  double host_bandwidth = 0;          // to host memory, and from it, bytes/s each
  std::string host_link = {};         // the link to the host: "PCIe 4.0 x16"
  double kernel_start = 0;  // CUDA: seconds between a kernel's end and the start of the next one
  std::string source;       // source of the figures
  Gpu gpu;                  // CUDA
};

/// Every chip that a plan supports; CPU last.
std::span<const Chip> chips();

/// The name of the chip whose devices have this `kind` in plugins ("TPU v6 lite", "NVIDIA H200");
/// empty for others.
std::string_view chip_of_kind(std::string_view kind);

/// bf16 FLOP/s of one device with this `kind` in its plugin ("TPU v6 lite", "NVIDIA H200"); 0 if
/// not published.
double peak_flops(std::string_view kind);

/// A GPU as the text of XLA's GpuTargetConfig.
std::string gpu_description(const Chip& chip);

}  // namespace kinema::planning
