#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

#include "kinema/io/tensor_file.h"

namespace kinema::io {

/// The tensors of a file of torch.save, in its zip format or the one before, or of a pickle with
/// arrays of numpy. No code of the file is run: see Pickle.
///
/// Names are the keys of the dict, those of nested dicts joined by dots. If the dict has one with
/// the tensors, as training checkpoints do (`state_dict`, `model`, `params`, ...), that one is
/// read. Numbers and short texts beside it are the metadata: `global_step`, `counters.updates`.
///
/// Tensors may share bytes. Those whose elements are not in order in the file are copied.
class PickleFile : public TensorFile {
 public:
  /// Throws an Error with the file and the problem: a name that is not on Pickle's list, a tensor
  /// outside of its storage or with elements that overlap, a big-endian or damaged file.
  static PickleFile open(const std::filesystem::path& path);
  /// The same checks over bytes in memory, which must outlive the result.
  static PickleFile parse(std::span<const std::byte> bytes, const std::string& source);

 private:
  friend class PickleFileReader;
};

}  // namespace kinema::io
