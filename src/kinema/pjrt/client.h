#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kinema/core/host_array.h"
#include "kinema/pjrt/buffer.h"
#include "kinema/pjrt/compile_options.h"
#include "kinema/pjrt/device.h"
#include "kinema/pjrt/executable.h"
#include "kinema/pjrt/key_values.h"
#include "kinema/pjrt/plugin.h"

namespace kinema::pjrt {

class Client;

/// Compiles programs over devices of several processes, if the plugin does not support them. All
/// processes call it in the same order.
class MultiProcessCompiler {
 public:
  virtual ~MultiProcessCompiler() = default;
  /// As Client::compile.
  virtual Executable compile(const Client& client, std::string_view program,
                             const CompileOptions& options) = 0;
  /// As Client::load, for a program that was compiled by `compile`; `serialized` is nothing in a
  /// process without one. Returns nothing unless all processes can load theirs.
  virtual std::optional<Executable> load(const Client& client,
                                         const std::optional<std::string>& serialized) = 0;
};

/// The index of this process among those that share the devices.
struct Processes {
  int64_t index = 0;
  int64_t count = 1;
  std::shared_ptr<MultiProcessCompiler> across = {};
};

/// The opened devices of one plugin. Buffers and executables may outlive it: they keep the
/// connection open.
class Client {
 public:
  /// Options are the plugin's, e.g. `cpu_device_count` -> 4. Throws an Error for an option of the
  /// wrong type and for the plugin's errors.
  ///
  /// `device_partition`: for a plugin that gives every process all devices. Each process addresses
  /// an equal, contiguous part of them. Programs over devices of several processes, or over several
  /// devices of one process, are then compiled by `device_partition.across`.
  ///
  /// `key_values`: for a plugin that connects processes itself: how it finds the others, until
  /// everything of the client is destroyed.
  explicit Client(const Plugin& plugin, const NamedValues& options = {},
                  const Processes& device_partition = {}, KeyValues key_values = {});

  const Plugin& plugin() const;
  /// `cpu`, `cuda`, `tpu`.
  std::string platform_name() const;
  std::string platform_version() const;
  int64_t process_index() const;
  /// The number of processes with a device.
  int64_t process_count() const;

  /// All devices, including those of other processes, in the plugin's order.
  const std::vector<Device>& devices() const { return devices_; }
  /// The devices of this process.
  const std::vector<Device>& addressable_devices() const { return addressable_; }
  /// The device with this id; throws an Error that lists the ids for another one.
  Device device(int64_t id) const;

  /// Copies `bytes` (row-major, exactly shape.bytes()) to a device; by default the first one.
  /// `bytes` is not used after the call.
  Buffer to_device(std::span<const std::byte> bytes, const Shape& shape) const;
  Buffer to_device(std::span<const std::byte> bytes, const Shape& shape, Device device,
                   MemoryKind memory = MemoryKind::DEVICE) const;
  Buffer to_device(const HostArray& array) const;
  Buffer to_device(const HostArray& array, Device device) const;
  /// Takes ownership of an array: returns while the copy may still run, and frees the array
  /// afterwards.
  Buffer to_device(HostArray&& array) const;
  Buffer to_device(HostArray&& array, Device device, MemoryKind memory = MemoryKind::DEVICE) const;

  /// Compiles StableHLO text (or MLIR bytecode). Throws an Error with the compiler's message.
  Executable compile(std::string_view program, const CompileOptions& options = {}) const;
  /// True for a program that is compiled by `device_partition.across`.
  bool is_multi_process(const CompileOptions& options) const;
  /// Compiles for all devices as if they belonged to this process.
  Executable compile_for_all(std::string_view program, const CompileOptions& options) const {
    return compile(program, "mlir", options);
  }
  /// As `load`, for the plugin's own bytes.
  Executable load_local(std::string_view serialized) const;
  /// Compiles an optimized HLO module for `options.device_ids`, one partition each.
  Executable compile_partitioned(std::string_view hlo, CompileOptions options) const;
  /// Loads the result of Compiled::serialize with the same plugin build, for a program of this
  /// process only.
  Executable load(std::string_view serialized) const;
  /// The same for a program that is_multi_process. Collective: returns nothing unless each process
  /// can load its bytes.
  std::optional<Executable> load_multi_process(const std::optional<std::string>& serialized) const;

  std::shared_ptr<const ClientHandle> handle() const { return handle_; }

 private:
  Executable compile(std::string_view program, std::string_view format,
                     const CompileOptions& options) const;

  std::shared_ptr<const ClientHandle> handle_;
  Processes device_partition_;
  std::vector<Device> devices_;
  std::vector<Device> addressable_;
};

}  // namespace kinema::pjrt
