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

/// An array on one device, or split over those of a mesh: a buffer on each that is this process's.
class Array {
 public:
  Array() = default;
  /// A whole array on one device.
  Array(pjrt::Buffer buffer);  // NOLINT(*-explicit-*): the same, on one device
  /// `blocks[d]` is what `shards[d]` holds of the array.
  Array(Shape shape, std::vector<mesh::Block> blocks, std::vector<pjrt::Buffer> shards);

  explicit operator bool() const { return !shards_.empty(); }
  const Shape& shape() const { return shape_; }
  std::span<const pjrt::Buffer> shards() const { return shards_; }
  std::span<const mesh::Block> blocks() const { return blocks_; }
  /// True when the devices of this process hold all of it between them.
  bool is_whole() const;
  /// Bytes that the fullest device holds of it.
  int64_t bytes_per_device() const;

  /// Where its buffers lie: DEVICE or HOST.
  Memory memory() const;

  /// Gathers the whole array; each distinct part is copied once. Waits for it. Throws an Error for
  /// one that other processes hold parts of (see WholeReader).
  HostArray to_host() const;
  bool is_deleted() const;
  /// The buffer of an array on one device.
  pjrt::Buffer take() &&;

 private:
  Shape shape_;
  std::vector<mesh::Block> blocks_;
  std::vector<pjrt::Buffer> shards_;
};

/// Whether devices of a platform (`cpu`, `cuda`, `tpu`) have their own memory. A CPU device uses
/// host memory.
bool has_own_memory(std::string_view platform);
bool has_own_memory(const pjrt::Client& client);

/// One array per buffer of one device.
std::vector<Array> to_arrays(std::vector<pjrt::Buffer> buffers);

/// The devices that a run's programs share, and how arrays lie on them: the first device of a
/// client, or those of a placement's mesh. Where processes share the mesh each has its own devices
/// here, and arrays have the parts of these.
class Devices {
 public:
  Devices(pjrt::Client client,  // NOLINT(*-explicit-*): a client's first device
          mesh::Placement placement = {});

  const pjrt::Client& client() const { return client_; }
  const mesh::Placement& placement() const { return placement_; }
  /// Those of this process.
  size_t count() const { return devices_.size(); }
  /// Those of all processes.
  int64_t total() const { return mesh_.devices(); }
  /// True when others have some of them.
  bool is_shared() const { return total() != static_cast<int64_t>(count()); }
  /// One of this process's, in the mesh's order.
  const pjrt::Device& operator[](size_t i) const { return devices_[i]; }
  /// The same devices, of which each part of an array is to be read by one alone and then spread
  /// to the others that hold it (`reads`, spread); `bytes` counts what this process read.
  Devices with_one_reader(std::shared_ptr<std::atomic<int64_t>> bytes) const;
  bool has_one_reader() const { return bytes_read_ != nullptr; }
  /// Whether device i reads its part of an array that lies so: without one reader, each does.
  bool reads(size_t i, const Sharding& sharding) const;
  void count_read(int64_t bytes) const;
  /// What each device of this process holds of an array.
  std::vector<mesh::Block> blocks(const Sharding& sharding, const Dims& dims) const;

  /// Copies to each device what it holds of an array; without a sharding, all of it. `bytes` are
  /// row-major and the caller's again on return.
  Array upload(std::span<const std::byte> bytes, const Shape& shape, const Sharding& sharding = {},
               Memory memory = Memory::DEVICE) const;
  Array upload(const HostArray& array, const Sharding& sharding = {},
               Memory memory = Memory::DEVICE) const {
    return upload(array.bytes, array.shape, sharding, memory);
  }
  /// The same from some entries of the first axis, in order: those that devices of this process
  /// hold. `bytes` has these alone.
  Array upload_rows(std::span<const std::byte> bytes, const Shape& shape,
                    std::span<const int64_t> rows, const Sharding& sharding) const;
  /// These entries.
  std::vector<int64_t> rows(const Sharding& sharding, const Dims& dims) const;
  Array zeros(const Shape& shape, const Sharding& sharding = {},
              Memory memory = Memory::DEVICE) const;
  /// What an argument that waits there is uploaded to. Throws an Error where devices have a memory
  /// of their own and the plugin offers none of the host's beside it.
  pjrt::MemoryKind memory_kind(Memory memory) const;

 private:
  pjrt::Client client_;
  mesh::Placement placement_;
  mesh::Mesh mesh_;  // the placement's, or one device without axes
  std::vector<pjrt::Device> devices_;
  std::vector<size_t> places_;  // of `devices_` in the mesh
  std::shared_ptr<std::atomic<int64_t>> bytes_read_;
};

/// The mesh axes of more than one device along which an array that lies so is copied.
std::vector<std::string> copying_axes(const mesh::Mesh& mesh, const Sharding& sharding);

}  // namespace kinema::runtime
