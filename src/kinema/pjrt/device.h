#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kinema/pjrt/value.h"

struct PJRT_Api;
struct PJRT_Device;
struct PJRT_DeviceDescription;
struct PJRT_Memory;

namespace kinema::pjrt {

/// What a plugin tells about a device, present or only planned for.
struct DeviceDescription {
  int64_t id = 0;
  int64_t process_index = 0;
  std::string kind;  // "cpu", "TPU v6 lite", "NVIDIA H100 80GB HBM3"
  std::string text;  // "CpuDevice(id=0)"
  NamedValues attributes;
};

/// Bytes on a device; fields that the plugin does not know are empty.
struct DeviceMemory {
  int64_t bytes_in_use = 0;
  std::optional<int64_t> peak_bytes_in_use;
  std::optional<int64_t> bytes_limit;
  std::optional<int64_t> largest_free_block_bytes;
};

/// Which of the memories that a device addresses: its own (on a CPU that of the host), or pages of
/// the host's that it reads and writes by itself.
enum class MemoryKind : uint8_t { DEVICE, PINNED_HOST };
/// What plugins call the second one.
inline constexpr std::string_view kPinnedHost = "pinned_host";

/// A device of a client; valid as long as the client or anything made from it.
class Device {
 public:
  /// `process`: whose it is, where the plugin takes all for its own process's.
  Device(const PJRT_Api* api, PJRT_Device* device, std::optional<int64_t> process = {})
      : api_(api), device_(device), process_(process) {}

  int64_t id() const;
  DeviceDescription description() const;
  /// Kinds of memory it can address, e.g. `device`, `pinned_host`.
  std::vector<std::string> memory_kinds() const;
  bool has_pinned_host() const;
  /// Throws an Error where there is none of this kind.
  PJRT_Memory* memory_of(MemoryKind kind) const;
  /// Nothing when the plugin keeps no figures (CPU).
  std::optional<DeviceMemory> memory() const;

  PJRT_Device* handle() const { return device_; }
  bool operator==(const Device& other) const { return device_ == other.device_; }

 private:
  const PJRT_Api* api_;
  PJRT_Device* device_;
  std::optional<int64_t> process_;
};

/// Reads a description handle of `api`.
DeviceDescription describe(const PJRT_Api& api, PJRT_DeviceDescription* description);

}  // namespace kinema::pjrt
