#include "kinema/kernels/kernel_set.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "kinema/kernels/cpu/kernel_set.h"
#include "kinema/kernels/gpu/lowering.h"
#include "kinema/kernels/tpu/lowering.h"

namespace kinema::kernels {
namespace {

struct Platform {
  std::string_view name;
  KernelSet (*kernels)(const Target& target, const KernelOptions& options);
  /// Bytes of temporaries per byte of additional kernel memory; 0: kernels need none.
  int64_t temporaries;
};

constexpr Platform kPlatforms[] = {
    {"cpu", cpu_kernel_set, 10}, {"cuda", gpu_kernel_set, 0}, {"tpu", tpu_kernel_set, 0}};

const Platform* find(std::string_view name) {
  const auto* found = std::ranges::find(kPlatforms, name, &Platform::name);
  return found == std::end(kPlatforms) ? nullptr : found;
}

int64_t temporaries_to_a_byte(std::string_view platform) {
  const Platform* known = find(platform);
  return known == nullptr ? 0 : known->temporaries;
}

}  // namespace

std::string_view word_of(GpuAttention::Kernel kernel) {
  constexpr std::string_view kWords[] = {"auto", "cudnn", "cudnn_fp8", "triton", "blockwise"};
  return kWords[static_cast<size_t>(kernel)];
}

void KernelSet::register_with(const pjrt::Plugin& plugin) const {
  for (const Handler& each : handlers) {
    plugin.register_ffi_handler(each.name, each.handler, each.platform);
  }
}

pjrt::CompileOptions KernelSet::with_flags(pjrt::CompileOptions options) const {
  options.flags.insert(flags.begin(), flags.end());
  return options;
}

KernelSet for_target(const Target& target, const KernelOptions& options) {
  const Platform* known = find(target.platform);
  return known == nullptr ? KernelSet{} : known->kernels(target, options);
}

int64_t working_bytes(std::string_view platform, int64_t temporaries) {
  const int64_t parts = temporaries_to_a_byte(platform);
  return parts == 0 ? 0 : temporaries / parts;
}

int64_t temporaries_within(std::string_view platform, int64_t bytes) {
  const int64_t parts = temporaries_to_a_byte(platform);
  return parts == 0 ? bytes : bytes / (parts + 1) * parts;
}

}  // namespace kinema::kernels
