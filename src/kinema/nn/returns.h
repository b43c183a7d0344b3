#pragma once

#include "kinema/graph/ops.h"

namespace kinema::nn {

/// What a sequence of states leads to; every tensor F32 [n, t], at the time of a state.
struct Trajectory {
  Tensor last;      // 1 where a state is the last of its episode: nothing behind it counts
  Tensor terminal;  // the probability that an episode ends in a state, after which all is 0
  Tensor reward;    // for reaching a state
  Tensor value;     // what is expected from a state on
};

/// Lambda returns (arXiv:2301.04104) of all states but the last, [n, t - 1]:
///
///   R[t] = reward[t+1] + live ((1 - c) value[t+1] + c R[t+1]),    R[last] = value[last]
///   live = (1 - terminal[t+1]) discount,    c = (1 - last[t+1]) lambda
Tensor lambda_returns(const Trajectory& x, double discount, double lambda);

/// x [n, t] -> the product of all elements up to each, along the second axis.
Tensor cumulative_product(Tensor x);

}  // namespace kinema::nn
