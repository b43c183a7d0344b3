#include "kinema/runtime/array.h"

#include <algorithm>
#include <set>
#include <utility>

#include "kinema/core/error.h"

namespace kinema::runtime {

Array::Array(pjrt::Buffer buffer) : shape_(buffer.shape()) {
  blocks_.push_back({Dims(shape_.dims.size(), 0), shape_.dims});
  shards_.push_back(std::move(buffer));
}

Array::Array(Shape shape, std::vector<mesh::Block> blocks, std::vector<pjrt::Buffer> shards)
    : shape_(std::move(shape)), blocks_(std::move(blocks)), shards_(std::move(shards)) {
  check(blocks_.size() == shards_.size(), "[runtime] {} shards for {} blocks of {}", shards_.size(),
        blocks_.size(), to_string(shape_));
}

int64_t Array::bytes_per_device() const {
  int64_t most = 0;
  for (const mesh::Block& block : blocks_) {
    most = std::max(most, block.elements() * byte_size(shape_.dtype));
  }
  return most;
}

Memory Array::memory() const {
  const bool on_host =
      !shards_.empty() && shards_.front().memory() == pjrt::MemoryKind::PINNED_HOST;
  return on_host ? Memory::HOST : Memory::DEVICE;
}

bool Array::is_whole() const {
  int64_t held = 0;
  for (const mesh::Holders& part : mesh::holders_of(blocks_)) {
    held += part.block.elements();
  }
  return held == shape_.elements();
}

HostArray Array::to_host() const {
  check(!shards_.empty(), "[runtime] the array is empty and cannot be read");
  check(is_whole(), "[runtime] {} is read completely, but parts of it are in other processes",
        to_string(shape_));
  const std::vector<mesh::Holders> parts = mesh::holders_of(blocks_);
  if (parts.size() == 1) {
    return shards_.front().to_host();
  }
  HostArray whole(shape_);
  for (const mesh::Holders& part : parts) {
    const HostArray one = shards_[part.devices.front()].to_host();
    mesh::put_block(one.bytes, shape_, part.block, whole.bytes);
  }
  return whole;
}

bool Array::is_deleted() const {
  return std::ranges::any_of(shards_, [](const pjrt::Buffer& each) { return each.is_deleted(); });
}

pjrt::Buffer Array::take() && {
  check(shards_.size() == 1, "[runtime] {} is on {} devices, not on one", to_string(shape_),
        shards_.size());
  return std::move(shards_.front());
}

bool has_device_memory(std::string_view platform) { return platform != "cpu"; }
bool has_device_memory(const pjrt::Client& client) {
  return has_device_memory(client.platform_name());
}

std::vector<Array> to_arrays(std::vector<pjrt::Buffer> buffers) {
  std::vector<Array> out;
  for (pjrt::Buffer& buffer : buffers) {
    out.emplace_back(std::move(buffer));
  }
  return out;
}

Devices::Devices(pjrt::Client client, mesh::Placement placement)
    : client_(std::move(client)), placement_(std::move(placement)) {
  if (placement_.active()) {
    mesh_ = placement_.mesh();
    const std::vector<pjrt::Device>& own = client_.addressable_devices();
    for (size_t place = 0; place < mesh_.device_ids.size(); ++place) {
      const pjrt::Device device = client_.device(mesh_.device_ids[place]);
      if (std::ranges::find(own, device) != own.end()) {
        devices_.push_back(device);
        places_.push_back(place);
      }
    }
    check(!devices_.empty(), "[runtime] the mesh has {} devices, but process {} has none of them",
          mesh_.devices(), client_.process_index());
  } else {
    devices_.push_back(client_.addressable_devices().front());
    places_.push_back(0);
    mesh_.device_ids.push_back(devices_.front().id());
  }
}

std::vector<mesh::Block> Devices::blocks(const Sharding& sharding, const Dims& dims) const {
  std::vector<mesh::Block> all = mesh::blocks_of(mesh_, sharding, dims);
  std::vector<mesh::Block> own;
  for (const size_t place : places_) {
    own.push_back(std::move(all[place]));
  }
  return own;
}

Devices Devices::with_one_reader(std::shared_ptr<std::atomic<int64_t>> bytes) const {
  Devices out = *this;
  out.bytes_read_ = std::move(bytes);
  return out;
}

bool Devices::reads(size_t i, const Sharding& sharding) const {
  if (!has_one_reader()) {
    return true;
  }
  const std::vector<std::string> copies = replicated_axes(mesh_, sharding);
  size_t left = places_[i];
  const auto& axes = mesh_.axes.axes;
  for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
    const auto size = static_cast<size_t>(axis->second);
    if (left % size != 0 && std::ranges::find(copies, axis->first) != copies.end()) {
      return false;
    }
    left /= size;
  }
  return true;
}

void Devices::count_read(int64_t bytes) const {
  if (bytes_read_) {
    *bytes_read_ += bytes;
  }
}

std::vector<std::string> replicated_axes(const mesh::Mesh& mesh, const Sharding& sharding) {
  std::vector<std::string> out;
  for (const auto& [axis, size] : mesh.axes.axes) {
    const bool splits = std::ranges::any_of(sharding.dims, [&, name = axis](const auto& named) {
      return std::ranges::find(named, name) != named.end();
    });
    if (size > 1 && !splits) {
      out.push_back(axis);
    }
  }
  return out;
}

Array Devices::upload(std::span<const std::byte> bytes, const Shape& shape,
                      const Sharding& sharding, Memory memory) const {
  const pjrt::MemoryKind kind = memory_kind(memory);
  std::vector<mesh::Block> all = blocks(sharding, shape.dims);
  std::vector<pjrt::Buffer> shards(all.size());
  for (const mesh::Holders& part : mesh::holders_of(all)) {
    const Shape size{shape.dtype, part.block.size};
    HostArray block;  // used if the part is not the whole array
    std::span<const std::byte> source = bytes;
    if (size != shape) {
      block = HostArray(size);
      mesh::take_block(bytes, shape, part.block, block.bytes);
      source = block.bytes;
    }
    for (const size_t d : part.devices) {
      shards[d] = client_.to_device(source, size, devices_[d], kind);
    }
  }
  return {shape, std::move(all), std::move(shards)};
}

std::vector<int64_t> Devices::rows(const Sharding& sharding, const Dims& dims) const {
  std::set<int64_t> out;
  for (const mesh::Block& block : blocks(sharding, dims)) {
    for (int64_t i = 0; i < block.size[0]; ++i) {
      out.insert(block.start[0] + i);
    }
  }
  return {out.begin(), out.end()};
}

Array Devices::upload_rows(std::span<const std::byte> bytes, const Shape& shape,
                           std::span<const int64_t> rows, const Sharding& sharding) const {
  Shape given = shape;
  given.dims[0] = std::ssize(rows);
  std::vector<mesh::Block> all = blocks(sharding, shape.dims);
  std::vector<pjrt::Buffer> shards(all.size());
  for (const mesh::Holders& part : mesh::holders_of(all)) {
    mesh::Block from = part.block;
    const auto first = std::ranges::lower_bound(rows, from.start[0]);
    check(first != rows.end() && *first == from.start[0] && rows.end() - first >= from.size[0] &&
              *(first + from.size[0] - 1) == from.start[0] + from.size[0] - 1,
          "[runtime] rows {} to {} of {} are on this process's devices, but not among the {} given",
          from.start[0], from.start[0] + from.size[0], to_string(shape), rows.size());
    from.start[0] = first - rows.begin();
    HostArray block(Shape{shape.dtype, from.size});
    mesh::take_block(bytes, given, from, block.bytes);
    for (const size_t d : part.devices) {
      shards[d] = client_.to_device(block, devices_[d]);
    }
  }
  return {shape, std::move(all), std::move(shards)};
}

pjrt::MemoryKind Devices::memory_kind(Memory memory) const {
  if (memory == Memory::DEVICE || !has_device_memory(client_)) {
    return pjrt::MemoryKind::DEVICE;
  }
  check(devices_.front().has_pinned_host(),
        "[runtime] {} has no host memory that its devices can read (pinned_host)\n  "
        "weights_memory=device and optimizer_memory=device need none",
        client_.plugin().path());
  return pjrt::MemoryKind::PINNED_HOST;
}

Array Devices::zeros(const Shape& shape, const Sharding& sharding, Memory memory) const {
  const pjrt::MemoryKind kind = memory_kind(memory);
  std::vector<mesh::Block> all = blocks(sharding, shape.dims);
  std::vector<pjrt::Buffer> shards;
  for (size_t d = 0; d < all.size(); ++d) {
    const HostArray zeros(Shape{shape.dtype, all[d].size});
    shards.push_back(client_.to_device(zeros.bytes, zeros.shape, devices_[d], kind));
  }
  return {shape, std::move(all), std::move(shards)};
}

}  // namespace kinema::runtime
