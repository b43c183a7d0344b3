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

/// Compiles what runs on devices of several processes, where the plugin itself cannot. All
/// processes call it in the same order.
class AcrossProcesses {
 public:
  virtual ~AcrossProcesses() = default;
  /// As Client::compile.
  virtual Executable compile(const Client& client, std::string_view program,
                             const CompileOptions& options) = 0;
  /// As Client::load of what was compiled here; `serialized` is nothing in a process that has none.
  /// Nothing unless all processes can load theirs.
  virtual std::optional<Executable> load(const Client& client,
                                         const std::optional<std::string>& serialized) = 0;
};

/// Which of the processes that share the devices this is.
struct Processes {
  int64_t index = 0;
  int64_t count = 1;
  std::shared_ptr<AcrossProcesses> across = {};
};

/// Devices of one plugin, opened. Buffers and executables made here may outlive it: they keep the
/// connection open.
class Client {
 public:
  /// Options are the plugin's own, e.g. `cpu_device_count` -> 4. Throws an Error for a wrongly
  /// typed known option and for what the plugin refuses.
  ///
  /// `device_partition`: for a plugin that gives every process all devices. Each process addresses
  /// an equal, contiguous part of them. Programs over devices of several processes, or over several
  /// devices of one process, are then compiled by `device_partition.across`.
  ///
  /// `key_values`: of a plugin that joins the devices of several processes by itself, what it
  /// finds the others with, as long as anything of the client lives.
  explicit Client(const Plugin& plugin, const NamedValues& options = {},
                  const Processes& device_partition = {}, KeyValues key_values = {});

  const Plugin& plugin() const;
  /// `cpu`, `cuda`, `tpu`.
  std::string platform_name() const;
  std::string platform_version() const;
  int64_t process_index() const;
  /// Processes that have a device.
  int64_t process_count() const;

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
  /// True for a program that `across` compiles.
  bool is_across(const CompileOptions& options) const;
  /// Compiles for all devices as if they were this process's.
  Executable compile_for_all(std::string_view program, const CompileOptions& options) const {
    return compile(program, "mlir", options);
  }
  /// As `load`, of the plugin's own bytes.
  Executable load_own(std::string_view serialized) const;
  /// Compiles an optimized HLO module for `options.device_ids`, one partition each.
  Executable compile_partitioned(std::string_view hlo, CompileOptions options) const;
  /// Loads what Compiled::serialize returned under the same plugin build; of a program of this
  /// process alone.
  Executable load(std::string_view serialized) const;
  /// The same for a program that is_across, called by all processes: nothing unless each can load
  /// what it gives.
  std::optional<Executable> load_across(const std::optional<std::string>& serialized) const;

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
