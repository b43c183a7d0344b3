#include "kinema/replay/chunk.h"

#include <cstring>
#include <utility>

#include "kinema/core/error.h"

namespace kinema::replay {
namespace {

constexpr int64_t kChunkBytes = 16;

void put_big_endian(std::span<std::byte> bytes, uint64_t value) {
  for (size_t i = bytes.size(); i-- > 0; value >>= 8) {
    bytes[i] = static_cast<std::byte>(value & 0xFF);
  }
}

uint64_t big_endian(std::span<const std::byte> bytes) {
  uint64_t value = 0;
  for (const std::byte b : bytes) {
    value = value << 8 | static_cast<uint64_t>(b);
  }
  return value;
}

}  // namespace

std::array<std::byte, StepId::kBytes> StepId::bytes() const {
  std::array<std::byte, kBytes> out{};
  put_big_endian(std::span(out).subspan(kChunkBytes - sizeof(chunk), sizeof(chunk)), chunk);
  put_big_endian(std::span(out).subspan(kChunkBytes), index);
  return out;
}

StepId StepId::from_bytes(std::span<const std::byte> bytes) {
  check(bytes.size() == kBytes, "[replay] a step's id has {} bytes but must have {}", bytes.size(),
        kBytes);
  return {.chunk = big_endian(bytes.subspan(kChunkBytes - sizeof(chunk), sizeof(chunk))),
          .index = static_cast<uint32_t>(big_endian(bytes.subspan(kChunkBytes)))};
}

void Chunk::append(const Arrays& step) {
  check(!is_full(), "[replay] chunk {} is full", number_);
  if (length_ == 0) {
    for (const auto& [name, value] : step) {
      Shape shape = value.shape;
      shape.dims.insert(shape.dims.begin(), size_);
      arrays_[name] = HostArray(shape);
    }
  }
  check(step.size() == arrays_.size(), "[replay] a step has {} values but earlier ones {}",
        step.size(), arrays_.size());
  for (const auto& [name, value] : step) {
    const std::span<std::byte> place = at(name, length_);
    check(value.bytes.size() == place.size(), "[replay] `{}` is {} but earlier ones had {} bytes",
          name, to_string(value.shape), place.size());
    std::memcpy(place.data(), value.bytes.data(), place.size());
  }
  ++length_;
}

std::span<const std::byte> Chunk::at(const std::string& name, int64_t index) const {
  const auto found = arrays_.find(name);
  check(found != arrays_.end(), "[replay] steps have no `{}`", name);
  check(index >= 0 && index < size_, "[replay] chunk {} has no step {}", number_, index);
  const size_t bytes = found->second.bytes.size() / static_cast<size_t>(size_);
  return std::span(found->second.bytes).subspan(static_cast<size_t>(index) * bytes, bytes);
}

std::span<std::byte> Chunk::at(const std::string& name, int64_t index) {
  const std::span<const std::byte> place = std::as_const(*this).at(name, index);
  return {const_cast<std::byte*>(place.data()), place.size()};
}

}  // namespace kinema::replay
