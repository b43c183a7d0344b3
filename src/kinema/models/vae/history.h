#pragma once

#include <span>
#include <vector>

#include "kinema/graph/tensor.h"

namespace kinema::vae {

/// The state that convolutions in time pass from one chunk of a video to the next: their last input
/// frames, one tensor per convolution, in the order of the forward pass.
///
/// A chunk is then a pure function (chunk, past) -> (result, past). The shapes are the same for all
/// chunk lengths. The first chunk has no past and is one frame; see each layer for its behaviour
/// there.
class History {
 public:
  /// Before the first chunk.
  History() = default;
  /// After a chunk: `past` is its kept(). `units` is the number of latent frames of the new chunk.
  explicit History(std::span<const Tensor> past, int64_t units = 1)
      : past_(past), units_(units), first_(false) {}

  bool first() const { return first_; }
  int64_t units() const { return units_; }
  /// The frames that the next convolution kept; an empty tensor in the first chunk.
  Tensor past();
  /// Stores the frames that this convolution keeps for the next chunk.
  void keep(Tensor frames) { kept_.push_back(frames); }
  /// The state for the next chunk. Throws an Error if a part of the past was not read.
  std::vector<Tensor> kept() const;

 private:
  std::span<const Tensor> past_;
  int64_t units_ = 1;
  bool first_ = true;
  size_t next_ = 0;
  std::vector<Tensor> kept_;
};

}  // namespace kinema::vae
