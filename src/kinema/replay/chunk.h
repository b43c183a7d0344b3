#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>

#include "kinema/core/host_array.h"
#include "kinema/replay/block.h"

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

/// Makes the bytes of a chunk.
using NewBlock = std::function<std::unique_ptr<Block>(uint64_t number, const Layout& layout)>;

/// Successive steps of one worker, at most a fixed number.
class Chunk {
 public:
  Chunk(uint64_t number, int64_t size) : number_(number), size_(size) {}

  uint64_t number() const { return number_; }
  /// The number of the next chunk, which exists once this one is full; 0: none yet.
  uint64_t successor() const { return successor_; }
  void set_successor(uint64_t number) { successor_ = number; }
  int64_t length() const { return length_; }
  bool is_full() const { return length_ == size_; }
  bool is_file() const { return block_ != nullptr && block_->is_file(); }
  /// The first step decides which names there are, and their shapes; throws an Error for a later
  /// one that differs.
  void append(const Arrays& step, const NewBlock& new_block);
  /// The same for a chunk that is empty: all of its steps at once, by name [length, ...].
  void fill(const Arrays& steps, const NewBlock& new_block);
  /// Takes bytes that have `length` steps already.
  void take(std::unique_ptr<Block> block, const Layout& layout, int64_t length);
  /// Nothing before the first step.
  const std::optional<Layout>& layout() const { return layout_; }
  /// All steps by name, [length, ...].
  Arrays arrays() const;
  /// The bytes of one step; throws an Error for a name or a place that is not there.
  std::span<const std::byte> at(const std::string& name, int64_t index) const;
  std::span<std::byte> at(const std::string& name, int64_t index);
  /// Of all values but those of these names.
  uint64_t checksum(const std::set<std::string>& except) const;

 private:
  void begin(const std::map<std::string, Shape>& step, const NewBlock& new_block);
  const Layout::Part& part(const std::string& name, int64_t index) const;

  uint64_t number_;
  int64_t size_;
  uint64_t successor_ = 0;
  int64_t length_ = 0;
  std::optional<Layout> layout_;
  std::unique_ptr<Block> block_;
  mutable std::optional<uint64_t> checksum_;  // of a full chunk
};

}  // namespace kinema::replay
