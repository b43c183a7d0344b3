#include "kinema/agent_step/draws.h"

#include <algorithm>

namespace kinema::agent_step {
namespace {

/// -log(-log u), with u above 0 so that every value is finite.
Tensor gumbel(Tensor key, const Dims& dims) {
  constexpr double kSmallest = 0x1p-25;
  return -log(-log(maximum(random_uniform(key, dims), kSmallest)));
}

}  // namespace

dreamer::Draws state_draws(const dreamer::AgentConfig& config, Tensor key, int64_t rows,
                           int64_t steps) {
  return {.noise = gumbel(key, {rows, steps, config.rssm.stoch, config.rssm.classes})};
}

dreamer::ActionDraws action_draws(const dreamer::AgentConfig& config, Tensor key,
                                  const Dims& leading) {
  dreamer::ActionDraws out;
  for (const auto& [name, space] : config.actions) {
    Dims dims = leading;
    dims.insert(dims.end(), space.shape.begin(), space.shape.end());
    const Tensor own = fold_in(key, name);
    if (space.is_discrete()) {
      dims.push_back(space.classes);
      out.noise[name] = gumbel(own, dims);
    } else {
      out.noise[name] = random_normal(own, dims);
    }
  }
  return out;
}

dreamer::LossDraws loss_draws(const dreamer::AgentConfig& config, Tensor key, int64_t rows,
                              int64_t steps) {
  const int64_t starts = config.imag_last > 0 ? std::min(config.imag_last, steps) : steps;
  const int64_t rollouts = rows * starts;
  return {
      .posterior = state_draws(config, fold_in(key, "posterior"), rows, steps),
      .prior = state_draws(config, fold_in(key, "prior"), rollouts, config.imag_length),
      .actions = action_draws(config, fold_in(key, "actions"), {rollouts, config.imag_length + 1})};
}

}  // namespace kinema::agent_step
