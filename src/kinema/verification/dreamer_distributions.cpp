#include <fmt/format.h>

#include <set>

#include "kinema/graph/autodiff.h"
#include "kinema/nn/activation.h"
#include "kinema/nn/distributions.h"
#include "kinema/verification/dreamer.h"

namespace kinema::verification {
namespace {

Tensor gradient_of_sum(Tensor y, Tensor x) { return gradients(sum(y), std::vector<Tensor>{x})[0]; }

void add_one_hot(CaseGraph& graph, double unimix) {
  const std::string prefix = fmt::format("onehot.unimix{:g}.", unimix);
  const Tensor logits = graph.input("onehot.logits");
  const Tensor others = graph.input("onehot.other");
  const nn::Categorical given(logits, unimix);
  const nn::Categorical other(others, unimix);
  graph.expect(prefix + "logp_all", given.log_probabilities());
  graph.expect(prefix + "entropy", given.entropy());
  graph.expect(prefix + "entropy_grad", gradient_of_sum(given.entropy(), logits));
  graph.expect(prefix + "kl", given.kl(other));
  graph.expect(prefix + "kl_grad", gradient_of_sum(given.kl(other), logits));
  graph.expect(prefix + "kl_grad_other", gradient_of_sum(given.kl(other), others));
  const Tensor index = given.sample(graph.input("onehot.gumbel"));
  graph.expect(prefix + "index", index);
  graph.expect(prefix + "mode", given.mode());
  const Tensor sample = given.straight_through(index);
  graph.expect(prefix + "sample", sample);
  graph.expect(prefix + "sample_grad",
               gradient_of_sum(sample * graph.input("onehot.weight"), logits));
}

void add_normal(CaseGraph& graph) {
  const Tensor x = graph.input("normal.mean");
  const Tensor y = graph.input("normal.stddev");
  constexpr double kLeast = 0.1;  // as the case's text says
  constexpr double kMost = 1.0;
  const nn::Normal normal = nn::Normal::bounded(x, y, kLeast, kMost);
  graph.expect("normal.out_mean", normal.mean());
  graph.expect("normal.out_stddev", normal.stddev());
  graph.expect("normal.sample", normal.sample(graph.input("normal.noise")));
  const Tensor log_prob = normal.log_prob(graph.input("normal.event"));
  graph.expect("normal.logp", log_prob);
  graph.expect("normal.entropy", normal.entropy());
  graph.expect("normal.logp_grad_mean", gradient_of_sum(log_prob, x));
  graph.expect("normal.logp_grad_stddev", gradient_of_sum(log_prob, y));
}

void add_binary(CaseGraph& graph) {
  const Tensor logit = graph.input("binary.logit");
  const nn::Binary binary(logit);
  const Tensor loss = binary.loss(graph.input("binary.target"));
  graph.expect("binary.loss", loss);
  graph.expect("binary.prob1", binary.probability());
  graph.expect("binary.grad", gradient_of_sum(loss, logit));
}

void add_two_hot(CaseGraph& graph, const std::string& prefix) {
  const Tensor logits = graph.input(prefix + ".logits");
  const Tensor target = graph.input(prefix + ".target");
  const Tensor bins = nn::symexp_bins(graph.graph(), logits.dim(-1));
  const nn::TwoHot given(logits, bins);
  graph.expect(prefix + ".bins", bins);
  graph.expect(prefix + ".encoded", nn::TwoHot::encode(target, bins));
  const Tensor loss = given.loss(target);
  graph.expect(prefix + ".loss", loss);
  graph.expect(prefix + ".grad", gradient_of_sum(loss, logits));
  const Tensor mean = given.mean();
  graph.expect(prefix + ".pred", mean);
  graph.expect(prefix + ".pred_grad",
               gradient_of_sum(mean / (1.0 + abs(stop_gradient(mean))), logits));
  const Tensor zeros = constant(graph.graph(), 0.0, {DType::F32, {1, logits.dim(-1)}});
  graph.expect(prefix + ".pred_at_zero_logits", nn::TwoHot(zeros, bins).mean());
}

}  // namespace

std::vector<Row> dreamer_distribution_rows(const Case& c, Session& session) {
  CaseGraph graph(c);
  for (const double unimix : {0.0, 0.01}) {
    add_one_hot(graph, unimix);
  }
  graph.expect(
      "categorical.logp",
      nn::Categorical(graph.input("onehot.logits")).log_prob(graph.input("categorical.event")));
  add_normal(graph);
  add_binary(graph);
  const Tensor error = graph.input("mse.mean") - nn::symlog(graph.input("mse.target"));
  graph.expect("mse.symlog", sum(square(error), {-1}));
  graph.expect("mse.plain", sum(square(graph.input("mse.mean") - graph.input("mse.target")), {-1}));
  for (const std::string& name : c.names("twohot")) {
    constexpr std::string_view kEnd = ".logits";
    if (name.ends_with(kEnd)) {
      add_two_hot(graph, name.substr(0, name.size() - kEnd.size()));
    }
  }
  return graph.run(session);
}

}  // namespace kinema::verification
