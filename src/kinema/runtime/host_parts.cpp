#include "kinema/runtime/host_parts.h"

#include <utility>

#include "kinema/core/error.h"

namespace kinema::runtime {

HostParts::HostParts(const Array& array)
    : shape_(array.shape()), blocks_(array.blocks().begin(), array.blocks().end()) {
  check(static_cast<bool>(array), "[runtime] the array is empty and cannot be read");
  for (const mesh::Holders& part : mesh::holders_of(blocks_)) {
    parts_.push_back(array.shards()[part.devices.front()].to_host());
  }
}

int64_t HostParts::bytes() const {
  int64_t out = 0;
  for (const HostArray& part : parts_) {
    out += std::ssize(part.bytes);
  }
  return out;
}

HostArray HostParts::whole() const {
  check(bytes() == shape_.bytes(),
        "[runtime] {} is read completely, but parts of it are in other processes",
        to_string(shape_));
  if (parts_.size() == 1) {
    return parts_.front();
  }
  HostArray out(shape_);
  const std::vector<mesh::Holders> holders = mesh::holders_of(blocks_);
  for (size_t i = 0; i < holders.size(); ++i) {
    mesh::put_block(parts_[i].bytes, shape_, holders[i].block, out.bytes);
  }
  return out;
}

Array HostParts::upload(const Devices& devices, Memory memory) const {
  const pjrt::MemoryKind kind = devices.memory_kind(memory);
  check(blocks_.size() == devices.count(), "[runtime] parts of {} devices for {}", blocks_.size(),
        devices.count());
  std::vector<pjrt::Buffer> shards(blocks_.size());
  const std::vector<mesh::Holders> holders = mesh::holders_of(blocks_);
  for (size_t i = 0; i < holders.size(); ++i) {
    for (const size_t d : holders[i].devices) {
      shards[d] = devices.client().to_device(parts_[i].bytes, parts_[i].shape, devices[d], kind);
    }
  }
  return {shape_, blocks_, std::move(shards)};
}

int64_t host_bytes(const Devices& devices, const Shape& shape, const Sharding& sharding) {
  int64_t elements = 0;
  for (const mesh::Holders& part : mesh::holders_of(devices.blocks(sharding, shape.dims))) {
    elements += part.block.elements();
  }
  return elements * byte_size(shape.dtype);
}

}  // namespace kinema::runtime
