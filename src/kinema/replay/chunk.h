#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "kinema/core/host_array.h"

/// What an agent has seen and done, kept for training.
namespace kinema::replay {

/// Arrays by name: of one step, or of rows of steps.
using Arrays = std::map<std::string, HostArray>;

/// Where a step is kept: its chunk's number, and its place in it.
struct StepId {
  uint64_t chunk = 0;
  uint32_t index = 0;
  auto operator<=>(const StepId&) const = default;

  /// As `stepid` of a sample has it: 16 bytes of the chunk and 4 of the place, high bytes first.
  static constexpr int64_t kBytes = 20;
  std::array<std::byte, kBytes> bytes() const;
  static StepId from_bytes(std::span<const std::byte> bytes);
};

/// Successive steps of one worker, in arrays of a fixed length.
class Chunk {
 public:
  Chunk(uint64_t number, int64_t size) : number_(number), size_(size) {}

  uint64_t number() const { return number_; }
  /// The number of the next chunk, which exists once this one is full; 0: none yet.
  uint64_t successor() const { return successor_; }
  void set_successor(uint64_t number) { successor_ = number; }
  int64_t length() const { return length_; }
  bool is_full() const { return length_ == size_; }
  /// The first step decides which names there are, and their shapes; throws an Error for a later
  /// one that differs.
  void append(const Arrays& step);
  /// The same for a chunk that is empty: all of its steps at once, by name [length, ...].
  void fill(const Arrays& steps);
  /// All steps by name, [size, ...], of which `length` are there.
  const Arrays& arrays() const { return arrays_; }
  /// The bytes of one step; throws an Error for a name or a place that is not there.
  std::span<const std::byte> at(const std::string& name, int64_t index) const;
  std::span<std::byte> at(const std::string& name, int64_t index);

 private:
  uint64_t number_;
  int64_t size_;
  uint64_t successor_ = 0;
  int64_t length_ = 0;
  Arrays arrays_;
};

}  // namespace kinema::replay
