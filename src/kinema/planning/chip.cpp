#include "kinema/planning/chip.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

namespace kinema::planning {
namespace {

constexpr double kTera = 1e12;
constexpr double kGiga = 1e9;
constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;
constexpr int64_t kKiB = 1024;
constexpr int64_t kMiB = 1024 * 1024;

// FLOPs per cycle of a TPU's matrix unit, with 128 or 256 multiply-adds per side.
constexpr double kUnit128 = 2.0 * 128 * 128;
constexpr double kUnit256 = 2.0 * 256 * 256;

// Vendors state the bandwidth of both directions of a link; half of it leaves a device.
constexpr double kOneWay = 0.5;

// A chip's PCIe bandwidth, from Google's "How to Scale Your Model" (jax-ml.github.io/scaling-book,
// on TPUs): 16 GB/s, from v6e on 32.
constexpr double kTpuHost = 16 * kGiga;
constexpr double kTpuHost6 = 32 * kGiga;

std::vector<Chip> tpus() {
  return {
      {.name = "v4",
       .family = Family::TPU,
       .kind = "TPU v4",
       .devices_per_chip = 2,
       .grid_axes = 3,
       .memory_bytes = 32 * kGiB / 2,
       .clock = 275 * kTera / 2 / (4 * kUnit128),
       .flops = 275 * kTera / 2,
       .memory_bandwidth = 1200 * kGiga / 2,
       .interconnect_bandwidth = 600 * kGiga * kOneWay / 2,
       .host_bandwidth = kTpuHost / 2,
       .host_link = "PCIe",
       .source = "Cloud TPU v4 documentation"},
      {.name = "v5e",
       .family = Family::TPU,
       .kind = "TPU v5e",
       .grid_axes = 2,
       .memory_bytes = 16 * kGiB,
       .clock = 197 * kTera / (4 * kUnit128),
       .flops = 197 * kTera,
       .int8_rate = 2,
       .memory_bandwidth = 800 * kGiga,
       .interconnect_bandwidth = 400 * kGiga * kOneWay,
       .host_bandwidth = kTpuHost,
       .host_link = "PCIe",
       .source = "Cloud TPU v5e documentation"},
      {.name = "v5p",
       .family = Family::TPU,
       .kind = "TPU v5p",
       .grid_axes = 3,
       .memory_bytes = 95 * kGiB,
       .clock = 459 * kTera / (8 * kUnit128),
       .flops = 459 * kTera,
       .int8_rate = 2,
       .memory_bandwidth = 2765 * kGiga,
       .interconnect_bandwidth = 1200 * kGiga * kOneWay,
       .host_bandwidth = kTpuHost,
       .host_link = "PCIe",
       .source = "Cloud TPU v5p documentation"},
      {.name = "v6e",
       .family = Family::TPU,
       .kind = "TPU v6e",
       .grid_axes = 2,
       .memory_bytes = 32 * kGiB,
       .clock = 918 * kTera / (4 * kUnit256),
       .flops = 918 * kTera,
       .int8_rate = 2,
       .memory_bandwidth = 1638 * kGiga,
       .interconnect_bandwidth = 800 * kGiga * kOneWay,
       .host_bandwidth = kTpuHost6,
       .host_link = "PCIe",
       .source = "Cloud TPU v6e documentation"},
      {.name = "tpu7x",
       .family = Family::TPU,
       .kind = "TPU7x",
       .devices_per_chip = 2,
       .grid_axes = 3,
       .memory_bytes = 192 * kGiB / 2,
       .clock = 2307 * kTera / 2 / (4 * kUnit256),
       .flops = 2307 * kTera / 2,
       .float8_rate = 2,
       .memory_bandwidth = 7380 * kGiga / 2,
       .interconnect_bandwidth = 1200 * kGiga * kOneWay / 2,
       .host_bandwidth = kTpuHost6 / 2,
       .host_link = "PCIe",
       .source = "Cloud TPU7x documentation"},
  };
}

// Properties of all GPUs of an architecture: from NVIDIA's tuning guides, and limits of a
// multiprocessor from the table of compute capabilities in the CUDA programming guide. If XLA's
// CUDA plugin (jax-cuda13-pjrt 0.12.0.1) contains a description of the device (A100, H100, H200,
// B200, B300), clocks, caches and rates are from it.
constexpr Gpu kAmpere = {.major = 8,
                         .minor = 0,
                         .shared_bytes = 164 * kKiB,
                         .shared_per_block = 163 * kKiB,
                         .threads = 2048,
                         .blocks = 32,
                         .fp32_units = 64,
                         .half_rate = 2,
                         .fp64_units = 32,
                         .tensor_fma = 256,
                         .tensor_fp64_fma = 16};
constexpr Gpu kAda = {.major = 8,
                      .minor = 9,
                      .shared_bytes = 100 * kKiB,
                      .shared_per_block = 99 * kKiB,
                      .threads = 1536,
                      .blocks = 24,
                      .fp32_units = 128,
                      .fp64_units = 2,
                      .tensor_fma = 128,
                      .fp8 = true};
constexpr Gpu kHopper = {.major = 9,
                         .minor = 0,
                         .accelerated = true,
                         .shared_bytes = 228 * kKiB,
                         .shared_per_block = 227 * kKiB,
                         .threads = 2048,
                         .blocks = 32,
                         .fp32_units = 128,
                         .half_rate = 2,
                         .fp64_units = 64,
                         .tensor_fma = 512,
                         .tensor_fp64_fma = 32,
                         .fp8 = true};
constexpr Gpu kBlackwell = {.major = 10,
                            .minor = 0,
                            .accelerated = true,
                            .shared_bytes = 228 * kKiB,
                            .shared_per_block = 227 * kKiB,
                            .threads = 2048,
                            .blocks = 32,
                            .fp32_units = 128,
                            .fp64_units = 64,
                            .tensor_fma = 1024,
                            .tensor_fp64_fma = 16,
                            .fp8 = true};
constexpr Gpu kRtxBlackwell = {.major = 12,
                               .minor = 0,
                               .shared_bytes = 100 * kKiB,
                               .shared_per_block = 99 * kKiB,
                               .threads = 1536,
                               .blocks = 24,
                               .fp32_units = 128,
                               .fp64_units = 2,
                               // GeForce: products with float32 sums have half the rate.
                               .tensor_fma = 64,
                               .fp8 = true};

/// One device of an architecture.
struct Size {
  int64_t cores;
  double clock_ghz;
  double tensor_clock_ghz;
  double memory_clock_ghz;
  int64_t l2_bytes;
  int64_t nvlinks;
};

Gpu sized(Gpu gpu, const Size& size) {
  gpu.cores = size.cores;
  gpu.clock_ghz = size.clock_ghz;
  gpu.tensor_clock_ghz = size.tensor_clock_ghz;
  gpu.memory_clock_ghz = size.memory_clock_ghz;
  gpu.l2_bytes = size.l2_bytes;
  gpu.nvlinks = size.nvlinks;
  return gpu;
}

/// Cards without NVLink, and the H100 for PCIe whose bridge connects pairs only, use PCIe x16.
constexpr double kPcie4 = 64;
constexpr double kPcie5 = 128;

/// The link between a GPU and its host, sum of both directions, from the vendors' data sheets.
struct HostLink {
  const char* name;
  double gigabytes;
};
constexpr HostLink kHost4{"PCIe 4.0 x16", kPcie4};
constexpr HostLink kHost5{"PCIe 5.0 x16", kPcie5};
constexpr HostLink kGrace{"NVLink-C2C", 900};

/// The time between the end of a kernel and the start of the next one in a CUDA graph, which XLA
/// uses for nearly all kernels: measured on H100
/// (hazyresearch.stanford.edu/blog/2025-05-27-no-bubbles; 2.1 us without a graph). XLA's
/// performance model of a GPU has 1 us (kKernelLaunchOverhead in gpu_performance_model_base.h),
/// also for all kernels.
constexpr double kKernelStart = 1.3e-6;

Chip gpu(std::string name, std::string kind, const Gpu& gpu, double gigabytes, double teraflops,
         double gigabytes_a_second, double link_gigabytes_a_second, const HostLink& host,
         std::string source) {
  // GeForce cards are slower with float32 sums, but not for int8.
  const bool slowed = gpu.tensor_fma == 64;
  return {.name = std::move(name),
          .family = Family::CUDA,
          .kind = std::move(kind),
          .memory_bytes = gigabytes * kGiga,
          .flops = teraflops * kTera,
          .int8_rate = slowed ? 4.0 : 2.0,
          .float8_rate = gpu.fp8 ? 2.0 : 1.0,
          .memory_bandwidth = gigabytes_a_second * kGiga,
          .interconnect_bandwidth = link_gigabytes_a_second * kGiga * kOneWay,
          .host_bandwidth = host.gigabytes * kGiga * kOneWay,
          .host_link = host.name,
          .kernel_start = kKernelStart,
          .source = std::move(source),
          .gpu = gpu};
}

std::vector<Chip> gpus() {
  Gpu geforce_ada = kAda;
  geforce_ada.tensor_fma = 64;  // as kRtxBlackwell
  Gpu ultra = kBlackwell;       // Blackwell Ultra
  ultra.minor = 3;
  // cores, clock, tensor clock, memory clock (GHz), L2, NVLinks; then GB, bf16 TFLOP/s, GB/s of
  // memory, GB/s of links.
  return {
      gpu("a100", "NVIDIA A100 SXM 40 GB", sized(kAmpere, {108, 1.41, 1.41, 1.215, 40 * kMiB, 12}),
          40, 312, 1555, 600, kHost4, "NVIDIA A100 data sheet"),
      gpu("a100-80gb", "NVIDIA A100 SXM 80 GB",
          sized(kAmpere, {108, 1.41, 1.41, 1.593, 40 * kMiB, 12}), 80, 312, 2039, 600, kHost4,
          "NVIDIA A100 80GB data sheet"),
      gpu("l4", "NVIDIA L4", sized(kAda, {58, 2.04, 2.04, 6.251, 48 * kMiB, 0}), 24, 121, 300,
          kPcie4, kHost4, "NVIDIA L4 data sheet"),
      gpu("l40s", "NVIDIA L40S", sized(kAda, {142, 2.52, 2.49, 9.001, 96 * kMiB, 0}), 48, 362.05,
          864, kPcie4, kHost4, "NVIDIA L40S data sheet"),
      gpu("rtx6000-ada", "NVIDIA RTX 6000 Ada",
          sized(kAda, {142, 2.505, 2.505, 10.001, 96 * kMiB, 0}), 48, 364.2, 960, kPcie4, kHost4,
          "NVIDIA Ada GPU architecture white paper"),
      gpu("rtx4090", "NVIDIA GeForce RTX 4090",
          sized(geforce_ada, {128, 2.52, 2.52, 10.501, 72 * kMiB, 0}), 24, 165.2, 1008, kPcie4,
          kHost4, "NVIDIA Ada GPU architecture white paper"),
      gpu("rtx5090", "NVIDIA GeForce RTX 5090",
          sized(kRtxBlackwell, {170, 2.407, 2.407, 14.001, 96 * kMiB, 0}), 32, 209.5, 1792, kPcie5,
          kHost5, "NVIDIA RTX Blackwell GPU architecture white paper"),
      gpu("h100", "NVIDIA H100 SXM", sized(kHopper, {132, 1.98, 1.8295201, 2.619, 50 * kMiB, 18}),
          80, 989, 3350, 900, kHost5, "NVIDIA H100 data sheet"),
      gpu("h100-pcie", "NVIDIA H100 PCIe",
          sized(kHopper, {114, 1.755, 1.62162, 1.593, 50 * kMiB, 0}), 80, 756, 2000, kPcie5, kHost5,
          "NVIDIA H100 data sheet"),
      gpu("h200", "NVIDIA H200 SXM", sized(kHopper, {132, 1.98, 1.8295201, 3.75, 50 * kMiB, 18}),
          141, 989, 4800, 900, kHost5, "NVIDIA H200 data sheet"),
      gpu("gh200", "NVIDIA GH200 96 GB",
          sized(kHopper, {132, 1.98, 1.8295201, 2.619, 50 * kMiB, 18}), 96, 989, 4000, 900, kGrace,
          "NVIDIA GH200 Grace Hopper data sheet"),
      gpu("b200", "NVIDIA B200", sized(kBlackwell, {148, 1.965, 1.8353101, 3.996, 132644864, 18}),
          180, 2250, 8000, 1800, kHost5, "NVIDIA DGX B200 data sheet"),
      gpu("b300", "NVIDIA B300", sized(ultra, {148, 1.965, 1.8353101, 3.996, 135528448, 18}), 288,
          2250, 8000, 1800, kHost5, "NVIDIA DGX B300 data sheet"),
  };
}

const std::vector<Chip>& table() {
  static const std::vector<Chip> all = [] {
    std::vector<Chip> out = tpus();
    std::ranges::move(gpus(), std::back_inserter(out));
    out.push_back({.name = "cpu", .family = Family::CPU, .kind = "CPU", .source = ""});
    return out;
  }();
  return all;
}

}  // namespace

std::string_view chip_of_kind(std::string_view kind) {
  // By the complete name: cards of the same generation for other slots are slower. TPU v4 is
  // missing, because plugins present a chip as one device or two.
  constexpr std::array<std::pair<std::string_view, std::string_view>, 25> kChips = {
      {{"TPU v5 lite", "v5e"},
       {"TPU v5e", "v5e"},
       {"TPU v5", "v5p"},
       {"TPU v5p", "v5p"},
       {"TPU v6 lite", "v6e"},
       {"TPU v6e", "v6e"},
       {"TPU7x", "tpu7x"},
       {"NVIDIA A100-SXM4-40GB", "a100"},
       {"NVIDIA A100-PCIE-40GB", "a100"},
       {"NVIDIA A100-SXM4-80GB", "a100-80gb"},
       {"NVIDIA A100 80GB PCIe", "a100-80gb"},
       {"NVIDIA L4", "l4"},
       {"NVIDIA L40S", "l40s"},
       {"NVIDIA RTX 6000 Ada Generation", "rtx6000-ada"},
       {"NVIDIA GeForce RTX 4090", "rtx4090"},
       {"NVIDIA GeForce RTX 5090", "rtx5090"},
       {"NVIDIA H100 80GB HBM3", "h100"},
       {"NVIDIA H100 PCIe", "h100-pcie"},
       {"NVIDIA H200", "h200"},
       {"NVIDIA GH200 480GB", "gh200"},
       {"NVIDIA GH200 144G HBM3e", "gh200"},
       {"NVIDIA B200", "b200"},
       {"NVIDIA B300", "b300"},
       {"NVIDIA B300 SXM6 AC", "b300"},
       {"NVIDIA B300 SXM6", "b300"}}};
  const auto* const found = std::ranges::find(kChips, kind, &decltype(kChips)::value_type::first);
  return found == kChips.end() ? std::string_view() : found->second;
}

double peak_flops(std::string_view kind) {
  const std::string_view name = chip_of_kind(kind);
  return name.empty() ? 0 : std::ranges::find(table(), name, &Chip::name)->flops;
}

std::span<const Chip> chips() { return table(); }

}  // namespace kinema::planning
