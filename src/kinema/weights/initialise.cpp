#include <algorithm>
#include <atomic>
#include <thread>
#include <utility>

#include "kinema/nn/init.h"
#include "kinema/weights/weights.h"

namespace kinema::weights {
namespace {

/// Calls `make(layer)` for every layer, some at a time.
void for_each_layer(int64_t layers, const auto& make) {
  const auto threads = std::clamp<int64_t>(std::thread::hardware_concurrency(), 1, layers);
  std::atomic<int64_t> next = 0;
  const auto work = [&] {
    for (int64_t layer = next++; layer < layers; layer = next++) {
      make(layer);
    }
  };
  std::vector<std::jthread> workers;
  for (int64_t i = 1; i < threads; ++i) {
    workers.emplace_back(work);
  }
  work();
}

HostArray initial(const nn::ParamSpec& spec, uint64_t seed) {
  HostArray all(Shape{DType::F32, spec.shape.dims});
  const Shape layer_shape = spec.layer_shape();
  const auto size = static_cast<size_t>(layer_shape.elements());
  if (!spec.init.row_offsets.empty()) {
    nn::check_row_offsets(spec.init, layer_shape.dims, spec.name);
  }
  for_each_layer(spec.count(), [&](int64_t layer) {
    nn::initial_values(spec.init, layer_shape.dims, spec.key(layer), seed,
                       all.as<float>().subspan(static_cast<size_t>(layer) * size, size));
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
