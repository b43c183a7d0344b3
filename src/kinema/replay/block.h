#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "kinema/core/shape.h"

namespace kinema::replay {

/// Where the values of a chunk's steps lie: each name's for all steps behind each other, names with
/// wide elements first.
class Layout {
 public:
  struct Part {
    Shape shape;         // of one step
    int64_t offset = 0;  // of the first step's, in the chunk
    int64_t bytes = 0;   // of one step
  };

  /// The values of one step by name, for chunks of `size` steps.
  Layout(const std::map<std::string, Shape>& step, int64_t size);

  int64_t size() const { return size_; }
  /// Of all steps.
  int64_t bytes() const { return bytes_; }
  const std::map<std::string, Part>& parts() const { return parts_; }
  /// What a safetensors file of the chunk begins with.
  std::string header() const;
  bool operator==(const Layout& other) const { return header() == other.header(); }

 private:
  int64_t size_;
  int64_t bytes_ = 0;
  std::map<std::string, Part> parts_;
};

/// The bytes of a chunk, in memory or in a file.
class Block {
 public:
  virtual ~Block() = default;
  /// Valid until the bytes of another block of the same folder are asked for.
  virtual std::span<const std::byte> bytes() = 0;
  virtual std::span<std::byte> writable() = 0;
  virtual bool is_file() const = 0;
};

std::unique_ptr<Block> memory_block(const Layout& layout);

/// A folder with a file for each chunk, `chunk-N.safetensors`, that are mapped into memory. The
/// file of a block that is destroyed stays until `drop_released`, since a checkpoint may need it.
class ChunkFiles {
 public:
  /// At most so many bytes are mapped at a time, those used longest ago given up first; one chunk
  /// always is.
  ChunkFiles(std::filesystem::path folder, int64_t most_mapped);

  /// Creates a file of the layout's size, which replaces a released one. Throws an Error when the
  /// disk is full.
  std::unique_ptr<Block> create(uint64_t number, const Layout& layout);
  bool has(uint64_t number) const;
  /// Opens a file for steps that it has. Throws an Error for one that is not what `layout` says.
  std::unique_ptr<Block> open(uint64_t number, const Layout& layout);
  /// The layout of a file. Throws an Error for one that is damaged.
  Layout layout_of(uint64_t number) const;

  /// Waits until everything that was written is on the disk.
  void sync();
  /// Removes the files of destroyed blocks.
  void drop_released();
  /// Removes the files of all chunks but these.
  void keep_only(const std::set<uint64_t>& numbers);

  int64_t mapped_bytes() const { return mapped_bytes_; }
  std::filesystem::path path(uint64_t number) const;

 private:
  class File;
  void touch(File& file);
  void unmap(File& file);

  std::filesystem::path folder_;
  int64_t most_mapped_;
  int64_t mapped_bytes_ = 0;
  std::list<File*> mapped_;  // the last used first
  std::set<File*> files_;
  std::set<uint64_t> released_;
};

}  // namespace kinema::replay
