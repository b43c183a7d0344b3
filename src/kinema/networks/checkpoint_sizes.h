#pragma once

#include <string>
#include <string_view>

#include "kinema/core/error.h"
#include "kinema/graph/ops.h"
#include "kinema/weights/checkpoint.h"

/// What networks that are read off a checkpoint's tensors ask of it.
namespace kinema::networks {

class CheckpointSizes {
 public:
  explicit CheckpointSizes(const weights::Checkpoint& checkpoint) : checkpoint_(checkpoint) {}

  /// Sizes of one tensor, which must have so many axes. Throws an Error naming file and tensor.
  const Dims& dims(const std::string& key, size_t axes) const;
  /// How many layers there are: the first number that a key, `blocks.{}.norm.weight`, does not
  /// have.
  int64_t count(std::string_view key) const;

 private:
  const weights::Checkpoint& checkpoint_;
};

/// The configuration, which `validate` accepts: its Error says that shapes were read.
template <typename Config, typename Validate>
Config validated(const weights::Checkpoint& checkpoint, Config config, Validate validate) {
  try {
    validate(config);
  } catch (const Error& error) {
    fail("{}\n  read off the shapes in {}", error.what(), checkpoint.path());
  }
  return config;
}

/// Latents [b, c, 1, h, w] of an image as [b, c, h, w]; `model` begins the Error where there are
/// more frames.
Tensor one_frame(Tensor latents, std::string_view model);

}  // namespace kinema::networks
