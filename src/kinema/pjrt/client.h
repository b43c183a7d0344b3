#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kinema/core/host_array.h"
#include "kinema/pjrt/buffer.h"
#include "kinema/pjrt/compile_options.h"
#include "kinema/pjrt/device.h"
#include "kinema/pjrt/executable.h"
#include "kinema/pjrt/plugin.h"

namespace kinema::pjrt {

/// Devices of one plugin, opened. Buffers and executables made here may outlive it: they keep the
/// connection open.
class Client {
 public:
  /// Options are the plugin's own, e.g. `cpu_device_count` -> 4. Throws an Error for a wrongly
  /// typed known option and for what the plugin refuses.
  explicit Client(const Plugin& plugin, const NamedValues& options = {});

  const Plugin& plugin() const;
  /// `cpu`, `cuda`, `tpu`.
  std::string platform_name() const;
  std::string platform_version() const;
  int64_t process_index() const;

  /// All devices, those of other processes included, in the plugin's order.
  const std::vector<Device>& devices() const { return devices_; }
  /// The devices of this process.
  const std::vector<Device>& addressable_devices() const { return addressable_; }
  /// The device with this id; throws an Error that lists the ids there are.
  Device device(int64_t id) const;

  /// Copies `bytes` (row-major, exactly shape.bytes()) to a device; by default the first one. The
  /// caller's memory is free again on return.
  Buffer to_device(std::span<const std::byte> bytes, const Shape& shape) const;
  Buffer to_device(std::span<const std::byte> bytes, const Shape& shape, Device device,
                   MemoryKind memory = MemoryKind::DEVICE) const;
  Buffer to_device(const HostArray& array) const;
  Buffer to_device(const HostArray& array, Device device) const;
  /// Hands an array over: returns while the copy may still run, and frees the array when it is
  /// done.
  Buffer to_device(HostArray&& array) const;
  Buffer to_device(HostArray&& array, Device device, MemoryKind memory = MemoryKind::DEVICE) const;

  /// Compiles StableHLO text (or MLIR bytecode). Throws an Error with the compiler's message.
  Executable compile(std::string_view program, const CompileOptions& options = {}) const;
  /// Loads what Compiled::serialize returned under the same plugin build.
  Executable load(std::string_view serialized) const;

  std::shared_ptr<const ClientHandle> handle() const { return handle_; }

 private:
  std::shared_ptr<const ClientHandle> handle_;
  std::vector<Device> devices_;
  std::vector<Device> addressable_;
};

}  // namespace kinema::pjrt
