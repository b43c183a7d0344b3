#include "kinema/training/state.h"

#include <algorithm>
#include <functional>
#include <iterator>

#include "kinema/optimizers/adamw.h"
#include "kinema/runtime/device_memory.h"

namespace kinema::training {
namespace {

std::vector<nn::ParamSpec> those(std::span<const nn::ParamSpec> specs, bool trained) {
  std::vector<nn::ParamSpec> out;
  std::ranges::copy_if(specs, std::back_inserter(out),
                       [&](const nn::ParamSpec& spec) { return spec.trained == trained; });
  return out;
}

int64_t elements(std::span<const nn::ParamSpec> specs,
                 const std::function<bool(const nn::ParamSpec&)>& counts) {
  int64_t sum = 0;
  for (const nn::ParamSpec& spec : specs) {
    sum += counts(spec) ? spec.shape.elements() : 0;
  }
  return sum;
}

}  // namespace

std::vector<nn::ParamSpec> trained_specs(std::span<const nn::ParamSpec> specs) {
  return those(specs, true);
}

std::vector<nn::ParamSpec> frozen_specs(std::span<const nn::ParamSpec> specs) {
  return those(specs, false);
}

int64_t network_parameters(std::span<const nn::ParamSpec> specs) {
  return elements(specs, [](const nn::ParamSpec& spec) {
    return !spec.is_low_rank() && !spec.is_stored_scale();
  });
}

int64_t trained_parameters(std::span<const nn::ParamSpec> specs) {
  return elements(specs, [](const nn::ParamSpec& spec) { return spec.trained; });
}

std::vector<nn::ParamSpec> state_specs(std::span<const nn::ParamSpec> specs, StateDType state) {
  std::vector<nn::ParamSpec> out(specs.begin(), specs.end());
  for (nn::ParamSpec& spec : out) {
    if (state == StateDType::F32 && spec.trained) {
      spec.shape.dtype = DType::F32;
    }
  }
  return out;
}

const optimizers::Optimizer& plain_adamw() {
  static const std::shared_ptr<const optimizers::Optimizer> plain =
      optimizers::adamw(optimizers::AdamWOptions{});
  return *plain;
}

StateParts<nn::ParamSpec> state_parts(std::span<const nn::ParamSpec> kept, bool average,
                                      const optimizers::Optimizer& optimizer) {
  StateParts<nn::ParamSpec> out;
  out.frozen = frozen_specs(kept);
  out.trained = trained_specs(kept);
  if (const std::optional<nn::ParamSpec> common = optimizer.common()) {
    out.mu.push_back(*common);
  }
  for (const nn::ParamSpec& spec : out.trained) {
    optimizers::Moments<nn::ParamSpec> moments = optimizer.kept(spec);
    std::ranges::move(moments.mu, std::back_inserter(out.mu));
    std::ranges::move(moments.nu, std::back_inserter(out.nu));
  }
  if (average) {
    out.ema = state_specs(out.trained);
    optimizers::set_memory(out.ema, optimizer.memory());
  }
  out.counts = nn::ParamSpec{.name = "counts", .shape = {DType::S32, {COUNTS}}, .axes = {""}};
  return out;
}

namespace {

template <typename Counts>
int64_t bytes_of(const StateParts<nn::ParamSpec>& parts, const mesh::Placement& placement,
                 const Counts& counts) {
  int64_t bytes = 0;
  for (const nn::ParamSpec* spec : parts.all()) {
    bytes += counts(*spec) ? runtime::bytes_per_device(spec->shape, spec->sharding(placement),
                                                       placement.mesh())
                           : 0;
  }
  return bytes;
}

}  // namespace

int64_t state_bytes(const StateParts<nn::ParamSpec>& parts, const mesh::Placement& placement) {
  return bytes_of(parts, placement, [](const nn::ParamSpec&) { return true; });
}

int64_t offloaded_bytes(const StateParts<nn::ParamSpec>& parts, const mesh::Placement& placement) {
  return bytes_of(parts, placement,
                  [](const nn::ParamSpec& spec) { return spec.memory != Memory::DEVICE; });
}

}  // namespace kinema::training
