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

/// A checkpoint of a store as a local folder in which large files are holes: what of their tensors
/// is read comes then, and no more.
class PartedCheckpoint {
 public:
  /// Writes the folder: small files and adapters whole, of networks and moments the headers. The
  /// manifest says which have holes; what it says of their contents is not compared.
  static void make(const remote::Store& store, int64_t step, const std::filesystem::path& folder);

  /// Of such a folder. Holes are filled while the object lives.
  PartedCheckpoint(const remote::Store& store, int64_t step, const std::filesystem::path& folder);

  int64_t step() const { return step_; }
  /// Of the files with holes; of these, what has come in this process.
  int64_t bytes() const { return bytes_; }
  int64_t bytes_brought() const;

 private:
  int64_t step_ = 0;
  int64_t bytes_ = 0;
  std::vector<std::unique_ptr<io::PartialCopy>> files_;
};

/// Whether an entry of a manifest is of a file with holes.
bool has_holes(const io::Json& entry);

}  // namespace kinema::checkpoints
