#include "kinema/core/error.h"
#include "kinema/verification/dreamer.h"

namespace kinema::verification {
namespace {

using dreamer::Draws;
using dreamer::RssmState;
using dreamer::TensorMap;

/// [b, t, ...] -> the first of each row.
Tensor first_of(Tensor x) { return squeeze(slice(x, Axis(1), 0, 1), Axis(1)); }

/// The features of a case, rows together.
RssmState states_of(CaseGraph& graph) {
  return {.deter = dreamer::rows_together(graph.input("feat.deter")),
          .stoch = dreamer::rows_together(graph.input("feat.stoch"))};
}

void expect_features(CaseGraph& graph, const std::string& prefix, const std::string& index,
                     const dreamer::RssmFeatures& features) {
  graph.expect(prefix + "deter", features.deter);
  graph.expect(prefix + "stoch", features.stoch);
  graph.expect(prefix + "logit", features.logit);
  graph.expect(index, features.index);
}

}  // namespace

std::vector<Row> dreamer_encoder_rows(const Case& c, Session& session) {
  const DreamerModel model(c.model());
  CaseGraph graph(c);
  const dreamer::Agent agent = model.agent(graph, session.model_options());
  TensorMap observations;
  TensorMap single;
  for (const auto& [name, space] : model.config().observations) {
    observations[name] = graph.input("obs." + name);
    single[name] = first_of(observations[name]);
  }
  graph.expect("tokens", agent.tokens(observations));
  graph.expect("tokens_single", agent.networks().encoder(single, agent.options()));
  return graph.run(session);
}

std::vector<Row> dreamer_decoder_rows(const Case& c, Session& session) {
  const DreamerModel model(c.model());
  CaseGraph graph(c);
  const dreamer::Agent agent = model.agent(graph, session.model_options());
  for (const auto& [name, value] : agent.networks().decoder(states_of(graph), agent.options())) {
    graph.expect("recon." + name, value);
  }
  return graph.run(session);
}

std::vector<Row> dreamer_rssm_rows(const Case& c, Session& session) {
  const DreamerModel model(c.model());
  CaseGraph graph(c);
  const dreamer::Agent agent = model.agent(graph, session.model_options());
  const dreamer::Rssm& rssm = agent.networks().rssm;
  const nn::ModelOptions& options = agent.options();
  const RssmState carry{.deter = graph.input("carry.deter"), .stoch = graph.input("carry.stoch")};
  const Tensor actions = agent.action_vectors(graph.inputs("prevact."));
  const dreamer::RssmFeatures observed =
      rssm.observe(carry, graph.input("tokens"), actions, flag(graph.input("reset")),
                   {.noise = graph.input("noise.post")}, options);
  expect_features(graph, "post.", "index.post", observed);
  graph.expect("prior.logit", rssm.prior(observed.deter, options));
  const dreamer::Rssm::Losses losses = rssm.losses(observed, options);
  graph.expect("loss.dyn", losses.dyn);
  graph.expect("loss.rep", losses.rep);
  graph.expect("kl", sum(losses.kl, {-1}));
  graph.expect("entropy.prior", losses.prior_entropy);
  graph.expect("entropy.post", losses.post_entropy);
  graph.expect("core", rssm.core(carry, first_of(actions), options));

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
  expect_features(graph, "imagine.", "imagine.index", imagined.features);
  return graph.run(session);
}

namespace {

void expect_policy(CaseGraph& graph, const std::string& name,
                   const dreamer::ActionDistribution& policy, Tensor action) {
  const std::string prefix = "pol." + name + ".";
  Shape elements{DType::F32, {}};
  if (policy.normal()) {
    graph.expect(prefix + "mean", policy.normal()->mean());
    graph.expect(prefix + "stddev", policy.normal()->stddev());
    elements = policy.normal()->mean().shape();
  } else {
    graph.expect(prefix + "logits", policy.categorical()->scores());
  }
  graph.expect(prefix + "logp", policy.log_prob(action));
  graph.expect(prefix + "entropy", policy.entropy());
  const auto [least, most] = policy.entropy_bounds();
  for (const auto& [word, bound] : {std::pair{"minent", least}, {"maxent", most}}) {
    for (const char* where : {"", "inner."}) {  // inner: of an action with a shape
      if (graph.expects(prefix + where + word)) {
        graph.expect(prefix + where + word, constant(graph.graph(), bound, elements));
      }
    }
  }
}

}  // namespace

std::vector<Row> dreamer_head_rows(const Case& c, Session& session) {
  const DreamerModel model(c.model());
  CaseGraph graph(c);
  const dreamer::Agent agent = model.agent(graph, session.model_options());
  const dreamer::Networks& networks = agent.networks();
  const nn::ModelOptions& options = agent.options();
  const dreamer::RssmFeatures features{.deter = graph.input("feat.deter"),
                                       .stoch = graph.input("feat.stoch")};
  const Tensor x = features.vector();
  const Tensor target = graph.input("target");
  const auto expect_two_hot = [&](const std::string& name, const nn::TwoHot& head) {
    graph.expect(name + ".logits", head.logits());
    graph.expect(name + ".pred", head.mean());
    if (graph.expects(name + ".loss")) {
      graph.expect(name + ".loss", head.loss(target));
    }
  };
  expect_two_hot("rew", networks.reward(x, options));
  expect_two_hot("val", networks.value(x, options));
  expect_two_hot("slowval", agent.slow_value()(x, options));
  const nn::Binary goes_on = networks.continuation(x, options);
  graph.expect("con.logit", goes_on.logit());
  graph.expect("con.prob1", goes_on.probability());
  graph.expect("con.loss", goes_on.loss(graph.input("con_target")));
  for (const auto& [name, policy] : networks.policy(x, options)) {
    expect_policy(graph, name, policy, graph.input("act." + name));
  }
  return graph.run(session);
}

}  // namespace kinema::verification
