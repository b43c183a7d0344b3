#pragma once

#include <span>
#include <vector>

#include "kinema/graph/tensor.h"

namespace kinema::vae {

/// What the convolutions in time remember from one chunk of a video to the next: their last input
/// frames, one tensor a convolution, in the order in which the network runs.
///
/// So a chunk is a pure function (chunk, past) -> (result, past). The shapes do not depend on how
/// long the chunks are. The first chunk has no past and is one frame; see each layer for what it
/// does there.
class History {
 public:
  /// Before the first chunk.
  History() = default;
  /// After one: what `kept` was then. `units` is how many latent frames the chunk has.
  explicit History(std::span<const Tensor> past, int64_t units = 1)
      : past_(past), units_(units), first_(false) {}

  bool first() const { return first_; }
  int64_t units() const { return units_; }
  /// The frames that the next convolution has kept; in its first chunk an empty tensor.
  Tensor past();
  /// What it keeps for the next chunk.
  void keep(Tensor frames) { kept_.push_back(frames); }
  /// All of it, when the chunk is through. Throws an Error when the past was not read to its end.
  std::vector<Tensor> kept() const;

 private:
  std::span<const Tensor> past_;
  int64_t units_ = 1;
  bool first_ = true;
  size_t next_ = 0;
  std::vector<Tensor> kept_;
};

}  // namespace kinema::vae
