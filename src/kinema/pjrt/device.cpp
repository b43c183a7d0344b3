#include "kinema/pjrt/device.h"

#include <algorithm>

#include "kinema/pjrt/api.h"

namespace kinema::pjrt {

DeviceDescription describe(const PJRT_Api& api, PJRT_DeviceDescription* description) {
  DeviceDescription out;
  out.id = KINEMA_PJRT(api, DeviceDescription_Id, .device_description = description).id;
  out.process_index =
      KINEMA_PJRT(api, DeviceDescription_ProcessIndex, .device_description = description)
          .process_index;
  const auto kind = KINEMA_PJRT(api, DeviceDescription_Kind, .device_description = description);
  out.kind = view(kind.device_kind, kind.device_kind_size);
  const auto text = KINEMA_PJRT(api, DeviceDescription_ToString, .device_description = description);
  out.text = view(text.to_string, text.to_string_size);
  const auto attributes =
      KINEMA_PJRT(api, DeviceDescription_Attributes, .device_description = description);
  out.attributes = read_named_values(attributes.attributes, attributes.num_attributes);
  return out;
}

int64_t Device::id() const {
  const auto reply = KINEMA_PJRT(*api_, Device_GetDescription, .device = device_);
  return KINEMA_PJRT(*api_, DeviceDescription_Id, .device_description = reply.device_description)
      .id;
}

DeviceDescription Device::description() const {
  DeviceDescription out = describe(
      *api_, KINEMA_PJRT(*api_, Device_GetDescription, .device = device_).device_description);
  out.process_index = process_.value_or(out.process_index);
  return out;
}

std::vector<std::string> Device::memory_kinds() const {
  const auto reply = KINEMA_PJRT(*api_, Device_AddressableMemories, .device = device_);
  std::vector<std::string> kinds;
  for (size_t i = 0; i < reply.num_memories; ++i) {
    const auto kind = KINEMA_PJRT(*api_, Memory_Kind, .memory = reply.memories[i]);
    kinds.emplace_back(view(kind.kind, kind.kind_size));
  }
  return kinds;
}

bool Device::has_pinned_host() const {
  const std::vector<std::string> kinds = memory_kinds();
  return std::ranges::find(kinds, kPinnedHost) != kinds.end();
}

PJRT_Memory* Device::memory_of(MemoryKind kind) const {
  if (kind == MemoryKind::DEVICE) {
    return KINEMA_PJRT(*api_, Device_DefaultMemory, .device = device_).memory;
  }
  const auto all = KINEMA_PJRT(*api_, Device_AddressableMemories, .device = device_);
  for (size_t i = 0; i < all.num_memories; ++i) {
    const auto one = KINEMA_PJRT(*api_, Memory_Kind, .memory = all.memories[i]);
    if (view(one.kind, one.kind_size) == kPinnedHost) {
      return all.memories[i];
    }
  }
  fail("[pjrt] device {} has no memory of the host that it reads ({})", id(), kPinnedHost);
}

std::optional<DeviceMemory> Device::memory() const {
  try {
    const auto stats = KINEMA_PJRT(*api_, Device_MemoryStats, .device = device_);
    const auto known = [](bool is_set, int64_t value) {
      return is_set ? std::optional(value) : std::nullopt;
    };
    return DeviceMemory{
        .bytes_in_use = stats.bytes_in_use,
        .peak_bytes_in_use = known(stats.peak_bytes_in_use_is_set, stats.peak_bytes_in_use),
        .bytes_limit = known(stats.bytes_limit_is_set, stats.bytes_limit),
        .largest_free_block_bytes =
            known(stats.largest_free_block_bytes_is_set, stats.largest_free_block_bytes)};
  } catch (const Error&) {
    return std::nullopt;  // optional in PJRT: the CPU plugin lacks it
  }
}

}  // namespace kinema::pjrt
