#include <fmt/format.h>

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
  graph.output(prefix + "logp_all", given.log_probabilities());
  graph.output(prefix + "entropy", given.entropy());
  graph.output(prefix + "entropy_grad", gradient_of_sum(given.entropy(), logits));
  graph.output(prefix + "kl", given.kl(other));
  graph.output(prefix + "kl_grad", gradient_of_sum(given.kl(other), logits));
  graph.output(prefix + "kl_grad_other", gradient_of_sum(given.kl(other), others));
  const Tensor index = given.sample(graph.input("onehot.gumbel"));
  graph.output(prefix + "index", index);
  graph.output(prefix + "mode", given.mode());
  const Tensor sample = given.straight_through(index);
  graph.output(prefix + "sample", sample);
  graph.output(prefix + "sample_grad",
               gradient_of_sum(sample * graph.input("onehot.weight"), logits));
}

void add_normal(CaseGraph& graph) {
  const Tensor x = graph.input("normal.mean");
  const Tensor y = graph.input("normal.stddev");
  constexpr double kLeast = 0.1;  // as the case's text says
  constexpr double kMost = 1.0;
  const nn::Normal normal = nn::Normal::bounded(x, y, kLeast, kMost);
  graph.output("normal.out_mean", normal.mean());
  graph.output("normal.out_stddev", normal.stddev());
  graph.output("normal.sample", normal.sample(graph.input("normal.noise")));
  const Tensor log_prob = normal.log_prob(graph.input("normal.event"));
  graph.output("normal.logp", log_prob);
  graph.output("normal.entropy", normal.entropy());
  graph.output("normal.logp_grad_mean", gradient_of_sum(log_prob, x));
  graph.output("normal.logp_grad_stddev", gradient_of_sum(log_prob, y));
}

void add_binary(CaseGraph& graph) {
  const Tensor logit = graph.input("binary.logit");
  const nn::Binary binary(logit);
  const Tensor loss = binary.loss(graph.input("binary.target"));
  graph.output("binary.loss", loss);
  graph.output("binary.prob1", binary.probability());
  graph.output("binary.grad", gradient_of_sum(loss, logit));
}

void add_two_hot(CaseGraph& graph, const std::string& prefix) {
  const Tensor logits = graph.input(prefix + ".logits");
  const Tensor target = graph.input(prefix + ".target");
  const Tensor bins = nn::symexp_bins(graph.graph(), logits.dim(-1));
  const nn::TwoHot given(logits, bins);
  graph.output(prefix + ".bins", bins);
  graph.output(prefix + ".encoded", nn::TwoHot::encode(target, bins));
  const Tensor loss = given.loss(target);
  graph.output(prefix + ".loss", loss);
  graph.output(prefix + ".grad", gradient_of_sum(loss, logits));
  const Tensor mean = given.mean();
  graph.output(prefix + ".pred", mean);
  graph.output(prefix + ".pred_grad",
               gradient_of_sum(mean / (1.0 + abs(stop_gradient(mean))), logits));
  const Tensor zeros = constant(graph.graph(), 0.0, {DType::F32, {1, logits.dim(-1)}});
  graph.output(prefix + ".pred_at_zero_logits", nn::TwoHot(zeros, bins).mean());
}

}  // namespace

void dreamer_distribution_cases(const Run& run) {
  CaseGraph graph(run);
  for (const double unimix : {0.0, 0.01}) {
    add_one_hot(graph, unimix);
  }
  graph.output(
      "categorical.logp",
      nn::Categorical(graph.input("onehot.logits")).log_prob(graph.input("categorical.event")));
  add_normal(graph);
  add_binary(graph);
  const Tensor error = graph.input("mse.mean") - nn::symlog(graph.input("mse.target"));
  graph.output("mse.symlog", sum(square(error), {-1}));
  graph.output("mse.plain", sum(square(graph.input("mse.mean") - graph.input("mse.target")), {-1}));
  for (const std::string& name : run.c.names("twohot")) {
    constexpr std::string_view kEnd = ".logits";
    if (name.ends_with(kEnd)) {
      add_two_hot(graph, name.substr(0, name.size() - kEnd.size()));
    }
  }
  run.add_expected(graph.run());
}

}  // namespace kinema::verification
