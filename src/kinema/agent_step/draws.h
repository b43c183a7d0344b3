#pragma once

#include "kinema/models/dreamer/agent.h"

/// Random numbers of an agent, drawn in its programs: a pure function of a key.
namespace kinema::agent_step {

/// Noise by which `rows` x `steps` states are sampled: Gumbel [rows, steps, stoch, classes].
dreamer::Draws state_draws(const dreamer::AgentConfig& config, Tensor key, int64_t rows,
                           int64_t steps);
/// Noise of every action, by name: [leading..., shape..., classes] Gumbel of integers, [leading...,
/// shape...] standard normal of floats.
dreamer::ActionDraws action_draws(const dreamer::AgentConfig& config, Tensor key,
                                  const Dims& leading);
/// Everything that the loss of a batch of `rows` x `steps` draws.
dreamer::LossDraws loss_draws(const dreamer::AgentConfig& config, Tensor key, int64_t rows,
                              int64_t steps);

}  // namespace kinema::agent_step
