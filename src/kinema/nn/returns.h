#pragma once

#include "kinema/graph/ops.h"

namespace kinema::nn {

/// Rewards and values of sequences of states; every tensor F32 [n, t], one entry per state.
struct Trajectory {
  Tensor last;      // 1 where a state is the last of its episode: what follows is not used
  Tensor terminal;  // the probability that the episode ends in a state, with return 0 afterwards
  Tensor reward;    // for reaching a state
  Tensor value;     // the expected return from a state
};

/// Lambda returns (arXiv:2301.04104) of all states but the last, [n, t - 1]:
///
///   R[t] = reward[t+1] + live ((1 - c) value[t+1] + c R[t+1]),    R[last] = value[last]
///   live = (1 - terminal[t+1]) discount,    c = (1 - last[t+1]) lambda
Tensor lambda_returns(const Trajectory& x, double discount, double lambda);

/// x [n, t] -> the product of all elements up to each, along the second axis.
Tensor cumulative_product(Tensor x);

}  // namespace kinema::nn
