#include "kinema/verification/dreamer.h"

namespace kinema::verification {
namespace {

using dreamer::Draws;
using dreamer::RssmState;
using dreamer::TensorMap;

/// [b, t, ...] -> the first of each row.
Tensor first_of(Tensor x) { return squeeze(slice(x, Axis(1), 0, 1), Axis(1)); }

void output_features(CaseGraph& graph, const std::string& prefix, const std::string& index,
                     const dreamer::RssmFeatures& features) {
  graph.output(prefix + "deter", features.deter);
  graph.output(prefix + "stoch", features.stoch);
  graph.output(prefix + "logit", features.logit);
  graph.output(index, features.index);
}

}  // namespace

void dreamer_encoder_cases(const Run& run) {
  AgentGraph graph(run);
  TensorMap observations;
  TensorMap single;
  for (const auto& [name, space] : graph.config().observations) {
    observations[name] = graph.input("obs." + name);
    single[name] = first_of(observations[name]);
  }
  graph.output("tokens", graph.agent.tokens(observations));
  graph.output("tokens_single", graph.agent.networks().encoder(single, graph.agent.options()));
  run.add_expected(graph.run());
}

void dreamer_decoder_cases(const Run& run) {
  AgentGraph graph(run);
  const RssmState given = graph.state("feat");
  const RssmState rows{.deter = dreamer::merge_leading_axes(given.deter),
                       .stoch = dreamer::merge_leading_axes(given.stoch)};
  for (const auto& [name, value] : graph.agent.networks().decoder(rows, graph.agent.options())) {
    graph.output("recon." + name, value);
  }
  run.add_expected(graph.run());
}

void dreamer_rssm_cases(const Run& run) {
  AgentGraph graph(run);
  const dreamer::Rssm& rssm = graph.agent.networks().rssm;
  const nn::ModelOptions& options = graph.agent.options();
  const RssmState carry = graph.state("carry");
  const Tensor actions = graph.agent.action_vectors(graph.inputs("prevact."));
  const dreamer::RssmFeatures observed =
      rssm.observe(carry, graph.input("tokens"), actions, flag(graph.input("reset")),
                   {.noise = graph.input("noise.post")}, options);
  output_features(graph, "post.", "index.post", observed);
  graph.output("prior.logit", rssm.prior(observed.deter, options));
  const dreamer::Rssm::Losses losses = rssm.losses(observed, options);
  graph.output("loss.dyn", losses.dyn);
  graph.output("loss.rep", losses.rep);
  graph.output("kl", sum(losses.kl, {-1}));
  graph.output("entropy.prior", losses.prior_entropy);
  graph.output("entropy.post", losses.post_entropy);
  graph.output("core", rssm.core(carry, first_of(actions), options));

  std::vector<std::string> names;
  std::vector<Tensor> given;
  for (const auto& [name, value] : graph.inputs("imagine.act.")) {
    names.push_back(name);
    given.push_back(value);
  }
  const auto as_given = [&](const RssmState&, std::span<const Tensor> now) {
    TensorMap out;
    for (size_t i = 0; i < names.size(); ++i) {
      out[names[i]] = now[i];
    }
    return out;
  };
  const Tensor noise = graph.input("imagine.noise");
  const dreamer::Rssm::Imagined imagined =
      rssm.imagine(carry, noise.dim(1), as_given, given, {.noise = noise}, options);
  output_features(graph, "imagine.", "imagine.index", imagined.features);
  run.add_expected(graph.run());
}

namespace {

void output_policy(CaseGraph& graph, const std::string& name,
                   const dreamer::ActionDistribution& policy, Tensor action) {
  const std::string prefix = "pol." + name + ".";
  Shape elements{DType::F32, {}};
  if (policy.normal()) {
    graph.output(prefix + "mean", policy.normal()->mean());
    graph.output(prefix + "stddev", policy.normal()->stddev());
    elements = policy.normal()->mean().shape();
  } else {
    graph.output(prefix + "logits", policy.categorical()->scores());
  }
  graph.output(prefix + "logp", policy.log_prob(action));
  graph.output(prefix + "entropy", policy.entropy());
  const auto [least, most] = policy.entropy_bounds();
  for (const auto& [word, bound] : {std::pair{"minent", least}, {"maxent", most}}) {
    for (const char* where : {"", "inner."}) {  // inner: of an action with a shape
      graph.output(prefix + where + word, constant(graph.graph(), bound, elements));
    }
  }
}

}  // namespace

void dreamer_head_cases(const Run& run) {
  AgentGraph graph(run);
  const dreamer::Networks& networks = graph.agent.networks();
  const nn::ModelOptions& options = graph.agent.options();
  const RssmState given = graph.state("feat");
  const dreamer::RssmFeatures features{.deter = given.deter, .stoch = given.stoch};
  const Tensor x = features.vector();
  const Tensor target = graph.input("target");
  const auto output_two_hot = [&](const std::string& name, const nn::TwoHot& head) {
    graph.output(name + ".logits", head.logits());
    graph.output(name + ".pred", head.mean());
    graph.output(name + ".loss", head.loss(target));
  };
  output_two_hot("rew", networks.reward(x, options));
  output_two_hot("val", networks.value(x, options));
  output_two_hot("slowval", graph.agent.slow_value()(x, options));
  const nn::Binary continues = networks.continuation(x, options);
  graph.output("con.logit", continues.logit());
  graph.output("con.prob1", continues.probability());
  graph.output("con.loss", continues.loss(graph.input("con_target")));
  for (const auto& [name, policy] : networks.policy(x, options)) {
    output_policy(graph, name, policy, graph.input("act." + name));
  }
  run.add_expected(graph.run());
}

}  // namespace kinema::verification
