#pragma once

#include <string>
#include <string_view>

#include "kinema/core/error.h"
#include "kinema/graph/ops.h"
#include "kinema/model_files/checkpoint.h"

/// Sizes of a network, read from a checkpoint's tensors.
namespace kinema::networks {

class CheckpointSizes {
 public:
  explicit CheckpointSizes(const model_files::Checkpoint& checkpoint) : checkpoint_(checkpoint) {}

  /// Sizes of one tensor, which must have `axes` axes. Throws an Error with file and tensor.
  const Dims& dims(const std::string& key, size_t axes) const;
  /// The number of layers: the first number for which a key, `blocks.{}.norm.weight`, does not
  /// exist.
  int64_t count(std::string_view key) const;

 private:
  const model_files::Checkpoint& checkpoint_;
};

/// The configuration after `validate`; its Errors are rethrown with a note that shapes were read.
template <typename Config, typename Validate>
Config validated(const model_files::Checkpoint& checkpoint, Config config, Validate validate) {
  try {
    validate(config);
  } catch (const Error& error) {
    fail("{}\n  read off the shapes in {}", error.what(), checkpoint.path());
  }
  return config;
}

/// Latents [b, c, 1, h, w] of an image as [b, c, h, w]; throws an Error that starts with `model`
/// for more frames.
Tensor one_frame(Tensor latents, std::string_view model);

}  // namespace kinema::networks
