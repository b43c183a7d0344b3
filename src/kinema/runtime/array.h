#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "kinema/core/host_array.h"
#include "kinema/graph/graph.h"
#include "kinema/mesh/blocks.h"
#include "kinema/mesh/placement.h"
#include "kinema/pjrt/buffer.h"
#include "kinema/pjrt/client.h"

namespace kinema::runtime {

/// An array on one device, or sharded over a mesh: one buffer per device of this process.
class Array {
 public:
  Array() = default;
  /// A complete array on one device.
  Array(pjrt::Buffer buffer);  // NOLINT(*-explicit-*): the same, on one device
  /// `blocks[d]` is the part of the array in `shards[d]`.
  Array(Shape shape, std::vector<mesh::Block> blocks, std::vector<pjrt::Buffer> shards);

  explicit operator bool() const { return !shards_.empty(); }
  const Shape& shape() const { return shape_; }
  std::span<const pjrt::Buffer> shards() const { return shards_; }
  std::span<const mesh::Block> blocks() const { return blocks_; }
  /// True if the devices of this process together hold the complete array.
  bool is_whole() const;
  /// Maximum bytes on one device.
  int64_t bytes_per_device() const;

  /// The memory of its buffers: DEVICE or HOST.
  Memory memory() const;

  /// Gathers the complete array; each distinct part is copied once. Waits for it. Throws an Error
  /// if parts are only on devices of other processes (see FullArrayReader).
  HostArray to_host() const;
  bool is_deleted() const;
  /// The buffer of an array on one device.
  pjrt::Buffer take() &&;

 private:
  Shape shape_;
  std::vector<mesh::Block> blocks_;
  std::vector<pjrt::Buffer> shards_;
};

/// True if devices of a platform (`cpu`, `cuda`, `tpu`) have separate memory. A CPU device uses
/// host memory.
bool has_device_memory(std::string_view platform);
bool has_device_memory(const pjrt::Client& client);

/// One array per buffer, all on one device.
std::vector<Array> to_arrays(std::vector<pjrt::Buffer> buffers);

/// The devices of a run's programs: a client's first device, or those of a placement's mesh. If
/// processes share the mesh, each has its own devices here, and its parts of arrays.
class Devices {
 public:
  Devices(pjrt::Client client,  // NOLINT(*-explicit-*): a client's first device
          mesh::Placement placement = {});

  const pjrt::Client& client() const { return client_; }
  const mesh::Placement& placement() const { return placement_; }
  /// Number of devices of this process.
  size_t count() const { return devices_.size(); }
  /// Number of devices of all processes.
  int64_t total() const { return mesh_.devices(); }
  /// True if other processes have some of the devices.
  bool is_shared() const { return total() != static_cast<int64_t>(count()); }
  /// A device of this process, in the mesh's order.
  const pjrt::Device& operator[](size_t i) const { return devices_[i]; }
  /// The same devices, but each distinct part of an array is read by one device only and then
  /// copied to the others (`reads`, spread); `bytes` counts the bytes that this process read.
  Devices with_one_reader(std::shared_ptr<std::atomic<int64_t>> bytes) const;
  bool has_one_reader() const { return bytes_read_ != nullptr; }
  /// True if device i reads its part of an array with this sharding: without with_one_reader, each
  /// does.
  bool reads(size_t i, const Sharding& sharding) const;
  void count_read(int64_t bytes) const;
  /// The part of an array on each device of this process.
  std::vector<mesh::Block> blocks(const Sharding& sharding, const Dims& dims) const;

  /// Copies to each device its part of an array; without a sharding, the complete array. `bytes`
  /// are row-major and not used after the call.
  Array upload(std::span<const std::byte> bytes, const Shape& shape, const Sharding& sharding = {},
               Memory memory = Memory::DEVICE) const;
  Array upload(const HostArray& array, const Sharding& sharding = {},
               Memory memory = Memory::DEVICE) const {
    return upload(array.bytes, array.shape, sharding, memory);
  }
  /// The same from some entries of the first axis, in order: those on devices of this process.
  /// `bytes` contains only these.
  Array upload_rows(std::span<const std::byte> bytes, const Shape& shape,
                    std::span<const int64_t> rows, const Sharding& sharding) const;
  /// The indices of these entries.
  std::vector<int64_t> rows(const Sharding& sharding, const Dims& dims) const;
  Array zeros(const Shape& shape, const Sharding& sharding = {},
              Memory memory = Memory::DEVICE) const;
  /// The PJRT memory of an argument with this Memory. Throws an Error for HOST if devices have
  /// separate memory and the plugin does not offer host memory.
  pjrt::MemoryKind memory_kind(Memory memory) const;

 private:
  pjrt::Client client_;
  mesh::Placement placement_;
  mesh::Mesh mesh_;  // the placement's, or one device without axes
  std::vector<pjrt::Device> devices_;
  std::vector<size_t> places_;  // positions of `devices_` in the mesh
  std::shared_ptr<std::atomic<int64_t>> bytes_read_;
};

/// The mesh axes, of more than one device, along which an array with this sharding is replicated.
std::vector<std::string> replicated_axes(const mesh::Mesh& mesh, const Sharding& sharding);

}  // namespace kinema::runtime
