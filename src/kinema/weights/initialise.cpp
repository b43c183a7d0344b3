#include <utility>

#include "kinema/core/parallel.h"
#include "kinema/nn/init.h"
#include "kinema/weights/weights.h"

namespace kinema::weights {
namespace {

HostArray initial(const nn::ParamSpec& spec, uint64_t seed) {
  HostArray all(Shape{DType::F32, spec.shape.dims});
  const Shape layer_shape = spec.layer_shape();
  const auto size = static_cast<size_t>(layer_shape.elements());
  if (!spec.init.row_offsets.empty()) {
    nn::check_row_offsets(spec.init, layer_shape.dims, spec.name);
  }
  constexpr int64_t kWorthThreads = 1
                                    << 16;  // values; for fewer, a thread costs more than it saves
  const int threads = spec.shape.elements() < kWorthThreads ? 1 : processor_threads();
  for_each_in_parallel(static_cast<size_t>(spec.count()), threads, [&](size_t i) {
    const auto layer = static_cast<int64_t>(i);
    nn::initial_values(spec.init, layer_shape.dims, spec.key(layer), seed,
                       all.as<float>().subspan(i * size, size));
  });
  return spec.shape.dtype == DType::F32 ? std::move(all) : convert(all, spec.shape.dtype);
}

}  // namespace

std::vector<pjrt::Buffer> initialise(std::span<const nn::ParamSpec> specs, uint64_t seed,
                                     pjrt::Client& client) {
  std::vector<pjrt::Buffer> buffers;
  buffers.reserve(specs.size());
  for (const nn::ParamSpec& spec : specs) {
    buffers.push_back(client.to_device(initial(spec, seed)));
  }
  return buffers;
}

std::vector<runtime::Array> initialise(std::span<const nn::ParamSpec> specs, uint64_t seed,
                                       const runtime::Devices& devices) {
  std::vector<runtime::Array> arrays;
  arrays.reserve(specs.size());
  for (const nn::ParamSpec& spec : specs) {
    arrays.push_back(
        devices.upload(initial(spec, seed), spec.sharding(devices.placement()), spec.memory));
  }
  return arrays;
}

}  // namespace kinema::weights
