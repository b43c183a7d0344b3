#pragma once

#include <string_view>

#include "kinema/graph/ops.h"

namespace kinema::nn {

/// The mask is a pure function of key (u32[2]), `place` and position, so recomputing a block drops
/// the same elements. Returns x unchanged if the key is empty or the rate zero.
class Dropout {
 public:
  Dropout() = default;
  Dropout(double rate, Tensor key) : rate_(rate), key_(key) {}

  Tensor operator()(Tensor x, std::string_view place) const;
  /// The same for one layer of a stack; `layer` is a u32 scalar.
  Dropout at(Tensor layer) const;
  bool active() const { return rate_ > 0.0 && static_cast<bool>(key_); }

 private:
  double rate_ = 0.0;
  Tensor key_;
};

}  // namespace kinema::nn
