#include "kinema/models/dreamer/rssm.h"

#include <string>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/graph/scan.h"
#include "kinema/nn/linear.h"

namespace kinema::dreamer {
namespace {

nn::DenseBlock::How block_of(const RssmConfig& c) { return {.activation = c.act, .norm = c.norm}; }

nn::DenseBlock dense_block(const nn::Params& params, const std::string& name, int64_t in,
                           const RssmConfig& c) {
  return {params / name, params / (name + "norm"), in, c.hidden, block_of(c)};
}

std::vector<nn::DenseBlock> dense_blocks(const nn::Params& params, const std::string& name,
                                         int64_t in, int64_t layers, const RssmConfig& c) {
  std::vector<nn::DenseBlock> blocks;
  for (int64_t i = 0; i < layers; ++i) {
    blocks.push_back(dense_block(params, name + std::to_string(i), i == 0 ? in : c.hidden, c));
  }
  return blocks;
}

Tensor through(std::span<const nn::DenseBlock> blocks, Tensor x, Precision precision) {
  for (const nn::DenseBlock& block : blocks) {
    x = block(x, precision);
  }
  return x;
}

/// [..., a, b] -> [..., a b].
Tensor flat_variables(Tensor stoch) {
  Dims dims = stoch.shape().dims;
  dims.pop_back();
  dims.back() = -1;
  return reshape(stoch, dims);
}

/// The noise or the classes of all steps, for a loop's slices.
Tensor draw_of(const Draws& draws) {
  check(draws.noise || draws.index, "[dreamer] neither noise nor classes of a draw were given");
  return draws.index ? draws.index : draws.noise;
}

}  // namespace

Tensor RssmFeatures::vector() const {
  return concatenate({deter, flat_variables(stoch)}, Axis(-1));
}

RssmFeatures RssmFeatures::last(int64_t count) const {
  const auto tail = [&](Tensor x) { return slice(x, Axis(1), x.dim(1) - count, count); };
  return {tail(deter), tail(stoch), tail(logit), tail(index)};
}

Rssm::Rssm(const nn::Params& params, const AgentConfig& config, int64_t tokens)
    : config_(config.rssm),
      action_spaces_(config.actions),
      actions_(features(config.actions)),
      tokens_(tokens),
      from_deter_(dense_block(params, "dynin0", config_.deter, config_)),
      from_stoch_(dense_block(params, "dynin1", config_.stoch * config_.classes, config_)),
      from_action_(dense_block(params, "dynin2", actions_, config_)),
      gru_(params / "dyngru", config_.deter, 3 * config_.deter, config_.blocks),
      posterior_(dense_blocks(params, "obs", tokens + (config_.absolute ? 0 : config_.deter),
                              config_.obslayers, config_)),
      posterior_logit_(params / "obslogit", config_.hidden, config_.stoch * config_.classes,
                       config_.outscale),
      prior_(dense_blocks(params, "prior", config_.deter, config_.imglayers, config_)),
      prior_logit_(params / "priorlogit", config_.hidden, config_.stoch * config_.classes,
                   config_.outscale) {
  for (int64_t i = 0; i < config_.dynlayers; ++i) {
    const std::string name = "dynhid" + std::to_string(i);
    const int64_t shared = i == 0 ? 3 * config_.hidden * config_.blocks : 0;
    hidden_.push_back(
        {.dense = {params / name, config_.deter + shared, config_.deter, config_.blocks},
         .norm = {params / (name + "norm"), config_.deter, config_.norm}});
  }
}

RssmState Rssm::initial(Graph& graph, int64_t n, const nn::ModelOptions& options) const {
  const DType dtype = options.activations_dtype;
  return {.deter = constant(graph, 0.0, {dtype, {n, config_.deter}}),
          .stoch = constant(graph, 0.0, {dtype, {n, config_.stoch, config_.classes}})};
}

Rssm::CoreRows Rssm::core_rows() const {
  // Each block's input is its part of deter, then what all share.
  const nn::BlockDense& first = hidden_[0].dense;
  const int64_t part = config_.deter / config_.blocks;
  return {.deter = first.rows(0, part),
          .states = first.shared_rows(part, 2 * config_.hidden),
          .action = first.shared_rows(part + 2 * config_.hidden, config_.hidden)};
}

Tensor Rssm::action_part(const CoreRows& rows, Tensor action,
                         const nn::ModelOptions& options) const {
  const Tensor bounded = action / stop_gradient(maximum(abs(action), 1.0));
  return nn::partial_product(from_action_(bounded, options.precision), rows.action,
                             options.precision);
}

Tensor Rssm::next_deter(const CoreRows& rows, const RssmState& state, Tensor action_part,
                        const nn::ModelOptions& options) const {
  const Precision precision = options.precision;
  const DType dtype = state.deter.dtype();
  const int64_t n = state.deter.dim(0);
  const auto activated = [&](const BlockLayer& layer, Tensor y) {
    return nn::activate(config_.act, layer.norm(y));
  };
  const Tensor states = concatenate(
      {from_deter_(state.deter, precision), from_stoch_(flat_variables(state.stoch), precision)},
      Axis(1));
  const Tensor sums = nn::partial_block_product(state.deter, rows.deter, precision) +
                      nn::partial_product(states, rows.states, precision) + action_part;
  Tensor x = activated(hidden_[0], nn::biased(sums, hidden_[0].dense.bias(), dtype));
  for (size_t i = 1; i < hidden_.size(); ++i) {
    x = activated(hidden_[i], hidden_[i].dense(x, precision));
  }
  // Every block gives a third of its own to each gate.
  const Tensor gates =
      reshape(gru_(x, precision), {n, config_.blocks, 3, config_.deter / config_.blocks});
  const auto gate = [&](int64_t i) {
    return reshape(slice(gates, Axis(2), i, 1), {n, config_.deter});
  };
  const Tensor candidate = tanh(nn::sigmoid(gate(0)) * gate(1));
  const Tensor update = nn::sigmoid(gate(2) - 1.0);
  return update * candidate + (1.0 - update) * state.deter;
}

Tensor Rssm::core(const RssmState& state, Tensor action, const nn::ModelOptions& options) const {
  const CoreRows rows = core_rows();
  return next_deter(rows, state, action_part(rows, action, options), options);
}

Tensor Rssm::as_variables(Tensor logits) const {
  Dims dims = logits.shape().dims;
  dims.back() = config_.stoch;
  dims.push_back(config_.classes);
  return reshape(logits, dims);
}

Tensor Rssm::prior(Tensor deter, const nn::ModelOptions& options) const {
  return as_variables(prior_logit_(through(prior_, deter, options.precision), options.precision));
}

Rssm::Sample Rssm::sample(Tensor logit, std::span<const Tensor> draw, bool is_index,
                          DType dtype) const {
  const nn::Categorical given = distribution(logit);
  const Tensor index = is_index ? draw[0] : given.sample(draw[0]);
  return {.index = index, .stoch = nn::as(given.straight_through(index), dtype)};
}

RssmFeatures Rssm::observe(const RssmState& state, Tensor tokens, Tensor actions, Tensor reset,
                           const Draws& draws, const nn::ModelOptions& options) const {
  const DType dtype = options.activations_dtype;
  const Precision precision = options.precision;
  const int64_t length = tokens.dim(1);
  check(tokens.rank() == 3 && tokens.dim(2) == tokens_ && actions.rank() == 3 &&
            actions.dim(2) == actions_,
        "[dreamer] tokens are {} and actions {} but must be [n, t, {}] and [n, t, {}]",
        to_string(tokens.shape()), to_string(actions.shape()), tokens_, actions_);
  // Time comes first for the loop. [t, n, 1]: 0 where an episode begins.
  const Tensor keeps = expand_dims(swap_leading_axes(convert(logical_not(reset), dtype)), Axis(2));
  const CoreRows rows = core_rows();
  const auto of_all_steps = [&](Tensor by_time, const std::function<Tensor(Tensor)>& f) {
    return split_leading_axis(f(merge_leading_axes(by_time)), length);
  };
  const Tensor action_parts = of_all_steps(swap_leading_axes(actions) * keeps,
                                           [&](Tensor a) { return action_part(rows, a, options); });
  const nn::Dense& first = posterior_[0].dense;
  const int64_t of_deter = config_.absolute ? 0 : config_.deter;
  const Tensor token_rows = first.rows(of_deter, tokens_);
  const Tensor token_parts = of_all_steps(swap_leading_axes(tokens), [&](Tensor t) {
    return nn::partial_product(t, token_rows, precision);
  });
  const Tensor deter_rows = config_.absolute ? Tensor() : first.rows(0, of_deter);

  const auto step = [&](std::span<const Tensor> carry, std::span<const Tensor> now) -> ScanResult {
    const Tensor keep = now[0];
    const RssmState before{.deter = carry[0] * keep,
                           .stoch = carry[1] * expand_dims(keep, Axis(2))};
    const Tensor deter = next_deter(rows, before, now[1], options);
    Tensor sums = now[2];
    if (deter_rows) {
      sums = sums + nn::partial_product(deter, deter_rows, precision);
    }
    Tensor x = posterior_[0].activated(nn::biased(sums, first.bias(), dtype));
    x = through(std::span(posterior_).subspan(1), x, precision);
    const Tensor logit = as_variables(posterior_logit_(x, precision));
    const Sample drawn = sample(logit, now.subspan(3), static_cast<bool>(draws.index), dtype);
    return {.carry = {deter, drawn.stoch}, .ys = {deter, drawn.stoch, logit, drawn.index}};
  };
  const ScanResult states =
      scan({nn::as(state.deter, dtype), nn::as(state.stoch, dtype)},
           {keeps, action_parts, token_parts, swap_leading_axes(draw_of(draws))},
           {.length = length}, step);
  return {.deter = swap_leading_axes(states.ys[0]),
          .stoch = swap_leading_axes(states.ys[1]),
          .logit = swap_leading_axes(states.ys[2]),
          .index = swap_leading_axes(states.ys[3])};
}

Rssm::Imagined Rssm::imagine(const RssmState& state, int64_t length, const Policy& policy,
                             std::vector<Tensor> given, const Draws& draws,
                             const nn::ModelOptions& options) const {
  const DType dtype = options.activations_dtype;
  const CoreRows rows = core_rows();
  std::vector<std::string> names;
  std::vector<Tensor> xs{swap_leading_axes(draw_of(draws))};
  for (const Tensor x : given) {
    xs.push_back(swap_leading_axes(x));
  }
  const auto step = [&](std::span<const Tensor> carry, std::span<const Tensor> now) -> ScanResult {
    const RssmState before{.deter = carry[0], .stoch = carry[1]};
    const TensorMap actions = policy(before, now.subspan(1));
    const Tensor vector = vector_of(action_spaces_, actions, /*compress=*/false, dtype);
    const Tensor deter = next_deter(rows, before, action_part(rows, vector, options), options);
    const Tensor logit = prior(deter, options);
    const Sample drawn = sample(logit, now, static_cast<bool>(draws.index), dtype);
    ScanResult result{.carry = {deter, drawn.stoch},
                      .ys = {deter, drawn.stoch, logit, drawn.index}};
    names.clear();
    for (const auto& [name, action] : actions) {
      names.push_back(name);
      result.ys.push_back(action);
    }
    return result;
  };
  const ScanResult states =
      scan({nn::as(state.deter, dtype), nn::as(state.stoch, dtype)}, xs, {.length = length}, step);
  Imagined out{.features = {.deter = swap_leading_axes(states.ys[0]),
                            .stoch = swap_leading_axes(states.ys[1]),
                            .logit = swap_leading_axes(states.ys[2]),
                            .index = swap_leading_axes(states.ys[3])}};
  for (size_t i = 0; i < names.size(); ++i) {
    out.actions[names[i]] = swap_leading_axes(states.ys[4 + i]);
  }
  return out;
}

Rssm::Losses Rssm::losses(const RssmFeatures& features, const nn::ModelOptions& options) const {
  const Tensor prior_logit = prior(features.deter, options);
  const auto fixed = [&](Tensor logit) { return distribution(stop_gradient(logit)); };
  const nn::Categorical posterior = distribution(features.logit);
  const nn::Categorical prior_now = distribution(prior_logit);
  const auto bounded = [&](Tensor kl) { return maximum(sum(kl, {-1}), config_.free_nats); };
  return {.dyn = bounded(fixed(features.logit).kl(prior_now)),
          .rep = bounded(posterior.kl(fixed(prior_logit))),
          .kl = posterior.kl(prior_now),
          .prior_entropy = sum(prior_now.entropy(), {-1}),
          .post_entropy = sum(posterior.entropy(), {-1})};
}

}  // namespace kinema::dreamer
