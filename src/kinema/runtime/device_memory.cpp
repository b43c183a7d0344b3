#include "kinema/runtime/device_memory.h"

#include <string>
#include <vector>

#include "kinema/kernels/kernel_set.h"
#include "kinema/runtime/environment.h"

namespace kinema::runtime {
namespace {

bool is_host(const Devices& devices) { return devices.client().platform_name() == "cpu"; }

}  // namespace

int64_t bytes_per_device(const Shape& shape, const Sharding& sharding, const mesh::Mesh& mesh) {
  int64_t parts = 1;
  for (const std::vector<std::string>& axes : sharding.dims) {
    parts *= mesh.size(axes);
  }
  return shape.bytes() / parts;
}

int64_t free_bytes(const Devices& devices) {
  if (const auto memory = devices[0].memory(); memory && memory->bytes_limit) {
    return *memory->bytes_limit - memory->bytes_in_use;
  }
  release_free_memory();
  return available_memory_bytes() / static_cast<int64_t>(devices.count());
}

int64_t kernel_bytes(const Devices& devices, int64_t temporaries) {
  return kernels::working_bytes(devices.client().platform_name(), temporaries);
}

int64_t temporaries_within(const Devices& devices, int64_t bytes) {
  return kernels::temporaries_within(devices.client().platform_name(), bytes);
}

int64_t held_bytes(const Devices& devices) {
  if (is_host(devices)) return rss_bytes();
  const auto memory = devices[0].memory();
  return memory ? memory->bytes_in_use : 0;
}

int64_t peak_bytes(const Devices& devices) {
  if (is_host(devices)) return peak_rss_bytes();
  const auto memory = devices[0].memory();
  return memory ? memory->peak_bytes_in_use.value_or(0) : 0;
}

}  // namespace kinema::runtime
