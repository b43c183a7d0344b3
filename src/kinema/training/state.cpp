#include "kinema/training/state.h"

#include <algorithm>
#include <iterator>

#include "kinema/runtime/device_memory.h"

namespace kinema::training {
namespace {

std::vector<nn::ParamSpec> those(std::span<const nn::ParamSpec> specs, bool trained) {
  std::vector<nn::ParamSpec> out;
  std::ranges::copy_if(specs, std::back_inserter(out),
                       [&](const nn::ParamSpec& spec) { return spec.trained == trained; });
  return out;
}

}  // namespace

std::vector<nn::ParamSpec> trained_of(std::span<const nn::ParamSpec> specs) {
  return those(specs, true);
}

std::vector<nn::ParamSpec> frozen_of(std::span<const nn::ParamSpec> specs) {
  return those(specs, false);
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

StateParts<nn::ParamSpec> state_parts(std::span<const nn::ParamSpec> kept, bool average) {
  StateParts<nn::ParamSpec> out;
  out.frozen = frozen_of(kept);
  out.trained = out.mu = out.nu = trained_of(kept);
  if (average) {
    out.ema = state_specs(out.trained);
  }
  out.count = nn::ParamSpec{.name = "count", .shape = {DType::S32, {}}};
  return out;
}

int64_t state_bytes(const StateParts<nn::ParamSpec>& parts, const mesh::Placement& placement) {
  int64_t bytes = 0;
  for (const nn::ParamSpec* spec : parts.all()) {
    bytes += runtime::bytes_per_device(spec->shape, spec->sharding(placement), placement.mesh());
  }
  return bytes;
}

}  // namespace kinema::training
