#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "kinema/io/json.h"
#include "kinema/io/partial_copy.h"
#include "kinema/remote/store.h"

namespace kinema::checkpoints {

/// A checkpoint of a store as a local folder with sparse files: bytes of large tensors are
/// downloaded when they are read.
class LazyCheckpoint {
 public:
  /// Writes the folder: small files and adapters completely, networks and moments with their
  /// headers only. The manifest marks files with holes, whose contents are not checked against it.
  static void make(const remote::Store& store, int64_t step, const std::filesystem::path& folder);

  /// Opens such a folder. Holes are filled while the object exists.
  LazyCheckpoint(const remote::Store& store, int64_t step, const std::filesystem::path& folder);

  int64_t step() const { return step_; }
  /// Bytes of the files with holes, and those downloaded by this process.
  int64_t bytes() const { return bytes_; }
  int64_t bytes_downloaded() const;

 private:
  int64_t step_ = 0;
  int64_t bytes_ = 0;
  std::vector<std::unique_ptr<io::PartialCopy>> files_;
};

/// True if a manifest's entry is for a file with holes.
bool has_holes(const io::Json& entry);

}  // namespace kinema::checkpoints
