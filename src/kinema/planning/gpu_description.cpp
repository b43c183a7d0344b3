#include <fmt/format.h>

#include <iterator>

#include "kinema/planning/chip.h"

namespace kinema::planning {
namespace {

// The software versions in the description, by which XLA chooses kernels: those of `kinema doctor
// --install cuda` (without a runtime version there are no FP8 products).
constexpr const char* kVersions =
    "  driver_version: \"13.0.0\"\n  runtime_version: \"13.2.0\"\n"
    "  compile_time_toolkit_version: \"13.2.0\"\n  dnn_version: \"9.23.0\"\n"
    "  cub_version: \"3.1.2\"\n";

// XLA's numbers of its element types (PrimitiveType).
enum Type { S8 = 2, S32 = 4, U8 = 6, U32 = 8, F16 = 10, F32 = 11, F64 = 12, BF16 = 16 };
enum Narrow { F8E5M2 = 19, F8E4M3FN = 20, F4E2M1FN = 32 };

void add_rate(std::string& out, int type, double clock_ghz, int64_t units, int64_t operations) {
  if (units > 0 && operations > 0) {
    fmt::format_to(std::back_inserter(out),
                   "    rate_infos {{ key: {} value {{ clock_rate_ghz: {} units_per_core: {} "
                   "ops_per_clock: {} }} }}\n",
                   type, clock_ghz, units, operations);
  }
}

std::string scalar_rates(const Gpu& gpu) {
  constexpr int64_t kIntegerUnits = 64;
  std::string out = "  scalar_unit_description {\n";
  add_rate(out, S32, gpu.clock_ghz, kIntegerUnits, 1);
  add_rate(out, U32, gpu.clock_ghz, kIntegerUnits, 1);
  for (const int half : {F16, BF16}) {
    add_rate(out, half, gpu.clock_ghz, gpu.fp32_units, gpu.half_rate);
  }
  add_rate(out, F32, gpu.clock_ghz, gpu.fp32_units, 1);
  add_rate(out, F64, gpu.clock_ghz, gpu.fp64_units, 1);
  return out + "  }\n";
}

std::string matrix_rates(const Gpu& gpu) {
  constexpr int64_t kTensorCores = 4;
  constexpr int kFirstWithF4 = 10;
  const auto add = [&gpu](std::string& out, int type, int64_t fma) {
    add_rate(out, type, gpu.tensor_clock_ghz, kTensorCores, fma);
  };
  std::string out = "  matrix_unit_description {\n";
  for (const int half : {F16, BF16}) {
    add(out, half, gpu.tensor_fma);
  }
  add(out, F32, gpu.tensor_fma / 2);
  for (const int integer : {S8, U8}) {
    add(out, integer, 2 * gpu.tensor_fma);
  }
  if (gpu.fp8) {
    add(out, F8E5M2, 2 * gpu.tensor_fma);
    add(out, F8E4M3FN, 2 * gpu.tensor_fma);
  }
  if (gpu.major >= kFirstWithF4) {
    add(out, F4E2M1FN, 4 * gpu.tensor_fma);
  }
  add_rate(out, F64, gpu.clock_ghz, kTensorCores, gpu.tensor_fp64_fma);
  return out + "  }\n";
}

}  // namespace

std::string gpu_description(const Chip& chip) {
  const Gpu& gpu = chip.gpu;
  return fmt::format(
             "gpu_device_info {{\n"
             "  name: \"{0}\"\n  device_vendor: \"NVIDIA Corporation\"\n"
             "  cuda_compute_capability {{ major: {1} minor: {2} feature_extension: {3} }}\n"
             "  core_count: {4}\n  fpus_per_core: {5}\n  clock_rate_ghz: {6}\n"
             "  threads_per_warp: 32\n  threads_per_block_limit: 1024\n  threads_per_core_limit: "
             "{7}\n"
             "  max_blocks_per_multiprocessor: {8}\n"
             "  thread_dim_limit_x: 1024\n  thread_dim_limit_y: 1024\n  thread_dim_limit_z: 64\n"
             "  block_dim_limit_x: 2147483647\n  block_dim_limit_y: 65535\n  block_dim_limit_z: "
             "65535\n"
             "  registers_per_core_limit: 65536\n  registers_per_block_limit: 65536\n"
             "  shared_memory_per_core: {9}\n  shared_memory_per_block: 49152\n"
             "  shared_memory_per_block_optin: {10}\n  reserved_shared_memory_per_block: 1024\n"
             "  l2_cache_size: {11}\n  device_memory_size: {12}\n  memory_bandwidth: {13}\n"
             "  mem_clock_ghz: {14}\n  device_address_bits: 64\n"
             "  collective_memory_granularity: 2097152\n",
             chip.kind, gpu.major, gpu.minor, gpu.accelerated ? "ACCELERATED_FEATURES" : "NONE",
             gpu.cores, gpu.fp32_units, gpu.clock_ghz, gpu.threads, gpu.blocks, gpu.shared_bytes,
             gpu.shared_per_block, gpu.l2_bytes, static_cast<int64_t>(chip.memory_bytes),
             static_cast<int64_t>(chip.memory_bandwidth), gpu.memory_clock_ghz) +
         (gpu.nvlinks > 0
              ? fmt::format("  device_interconnect_info {{ active_links: {} }}\n", gpu.nvlinks)
              : "") +
         kVersions + scalar_rates(gpu) + matrix_rates(gpu) +
         fmt::format("}}\nplatform_name: \"CUDA\"\ndevice_description_str: \"{}\"\n", chip.kind);
}

}  // namespace kinema::planning
