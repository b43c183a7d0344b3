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

/// A plugin's description of a device, which may not be installed.
struct DeviceDescription {
  int64_t id = 0;
  int64_t process_index = 0;
  std::string kind;  // "cpu", "TPU v6 lite", "NVIDIA H100 80GB HBM3"
  std::string text;  // "CpuDevice(id=0)"
  NamedValues attributes;
};

/// Bytes on a device; fields that the plugin does not report are empty.
struct DeviceMemory {
  int64_t bytes_in_use = 0;
  std::optional<int64_t> peak_bytes_in_use;
  std::optional<int64_t> bytes_limit;
  std::optional<int64_t> largest_free_block_bytes;
};

/// The memory of a buffer: the device's own (on a CPU, host memory), or pinned host memory that the
/// device can access.
enum class MemoryKind : uint8_t { DEVICE, PINNED_HOST };
/// The plugins' name of the second one.
inline constexpr std::string_view kPinnedHost = "pinned_host";

/// A device of a client; valid while the client or any of its objects exists.
class Device {
 public:
  /// `process`: its owner, if the plugin assigns all devices to its own process.
  Device(const PJRT_Api* api, PJRT_Device* device, std::optional<int64_t> process = {})
      : api_(api), device_(device), process_(process) {}

  int64_t id() const;
  DeviceDescription description() const;
  /// Kinds of memory that it can address, e.g. `device`, `pinned_host`.
  std::vector<std::string> memory_kinds() const;
  bool has_pinned_host() const;
  /// Throws an Error if it does not have this kind.
  PJRT_Memory* memory_of(MemoryKind kind) const;
  /// Nothing if the plugin does not report it (CPU).
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
