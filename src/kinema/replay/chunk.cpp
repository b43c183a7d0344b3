#include "kinema/replay/chunk.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/io/hash.h"

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

void Chunk::begin(const std::map<std::string, Shape>& step, const NewBlock& new_block) {
  layout_.emplace(step, size_);
  block_ = new_block(number_, *layout_);
}

void Chunk::append(const Arrays& step, const NewBlock& new_block) {
  check(!is_full(), "[replay] chunk {} is full", number_);
  if (length_ == 0) {
    std::map<std::string, Shape> shapes;
    for (const auto& [name, value] : step) {
      shapes[name] = value.shape;
    }
    begin(shapes, new_block);
  }
  check(step.size() == layout_->parts().size(), "[replay] a step has {} values but earlier ones {}",
        step.size(), layout_->parts().size());
  for (const auto& [name, value] : step) {
    const std::span<std::byte> place = at(name, length_);
    check(value.bytes.size() == place.size(), "[replay] `{}` is {} but earlier ones had {} bytes",
          name, to_string(value.shape), place.size());
    std::memcpy(place.data(), value.bytes.data(), place.size());
  }
  ++length_;
}

void Chunk::fill(const Arrays& steps, const NewBlock& new_block) {
  check(length_ == 0, "[replay] chunk {} is not empty", number_);
  std::map<std::string, Shape> shapes;
  int64_t length = 0;
  for (const auto& [name, value] : steps) {
    const Dims& dims = value.shape.dims;
    check(!dims.empty() && dims[0] > 0 && dims[0] <= size_,
          "[replay] `{}` of chunk {} is {} but must be of 1 to {} steps", name, number_,
          to_string(value.shape), size_);
    check(length == 0 || dims[0] == length, "[replay] values of chunk {} have {} and {} steps",
          number_, length, dims[0]);
    length = dims[0];
    shapes[name] = {value.shape.dtype, {dims.begin() + 1, dims.end()}};
  }
  if (length == 0) {
    return;
  }
  begin(shapes, new_block);
  for (const auto& [name, value] : steps) {
    std::ranges::copy(value.bytes, block_->writable().begin() + layout_->parts().at(name).offset);
  }
  length_ = length;
}

void Chunk::take(std::unique_ptr<Block> block, const Layout& layout, int64_t length) {
  check(layout.size() == size_ && length <= size_,
        "[replay] chunk {} has room for {} steps but must have room for {}", number_, layout.size(),
        size_);
  block_ = std::move(block);
  layout_ = layout;
  length_ = length;
}

Arrays Chunk::arrays() const {
  Arrays out;
  if (!layout_) {
    return out;
  }
  for (const auto& [name, part] : layout_->parts()) {
    Shape shape = part.shape;
    shape.dims.insert(shape.dims.begin(), length_);
    HostArray values(shape);
    std::ranges::copy(
        block_->bytes().subspan(static_cast<size_t>(part.offset), values.bytes.size()),
        values.bytes.begin());
    out[name] = std::move(values);
  }
  return out;
}

const Layout::Part& Chunk::part(const std::string& name, int64_t index) const {
  const Layout::Part* found = nullptr;
  if (layout_) {
    const auto at = layout_->parts().find(name);
    found = at == layout_->parts().end() ? nullptr : &at->second;
  }
  check(found != nullptr, "[replay] steps have no `{}`", name);
  check(index >= 0 && index < size_, "[replay] chunk {} has no step {}", number_, index);
  return *found;
}

std::span<const std::byte> Chunk::at(const std::string& name, int64_t index) const {
  const Layout::Part& here = part(name, index);
  return block_->bytes().subspan(static_cast<size_t>(here.offset + index * here.bytes),
                                 static_cast<size_t>(here.bytes));
}

std::span<std::byte> Chunk::at(const std::string& name, int64_t index) {
  const Layout::Part& here = part(name, index);
  return block_->writable().subspan(static_cast<size_t>(here.offset + index * here.bytes),
                                    static_cast<size_t>(here.bytes));
}

uint64_t Chunk::checksum(const std::set<std::string>& except) const {
  if (checksum_) {
    return *checksum_;
  }
  io::Hasher hasher;
  if (layout_) {
    for (const auto& [name, here] : layout_->parts()) {
      if (!except.contains(name)) {
        hasher.update(block_->bytes().subspan(static_cast<size_t>(here.offset),
                                              static_cast<size_t>(length_ * here.bytes)));
      }
    }
  }
  constexpr size_t kDigits = 16;
  constexpr int kHexadecimal = 16;
  const std::string text = hasher.hex().substr(0, kDigits);
  uint64_t out = 0;
  std::from_chars(text.data(), text.data() + text.size(), out, kHexadecimal);
  if (is_full()) {
    checksum_ = out;
  }
  return out;
}

}  // namespace kinema::replay
