#include "kinema/graph/autodiff.h"
#include "kinema/optimizers/laprop.h"
#include "kinema/verification/dreamer.h"

namespace kinema::verification {
namespace {

void output_losses(CaseGraph& graph, const dreamer::LossOutputs& out) {
  graph.output("loss", out.total);
  graph.output("tokens", out.tokens);
  graph.output("post.deter", out.features.deter);
  graph.output("post.stoch", out.features.stoch);
  graph.output("post.logit", out.features.logit);
  graph.output("index.post", out.features.index);
  for (const auto& [name, loss] : out.losses) {
    graph.output("loss." + name, loss);
  }
  for (const auto& [name, metric] : out.metrics) {
    graph.output("metric." + name, metric);
  }
}

void compute_loss(const Run& run, DType dtype) {
  AgentGraph graph(run, dtype);
  const dreamer::RssmState carried = graph.state("carry");
  const dreamer::Batch batch = dreamer::batch_of(
      graph.config(), graph.inputs("data."),
      {.deter = convert(carried.deter, dtype), .stoch = convert(carried.stoch, dtype)});
  const auto tap = [&](const std::string& name, Tensor value) {
    constexpr std::string_view kRollout = "imag.";
    const std::string index =
        name.starts_with("imag.act.") ? "index." + name.substr(kRollout.size()) : name;
    for (const std::string& tensor : {"tap." + name, index}) {
      if (run.expects(tensor)) {
        graph.output(tensor, value);
      }
    }
  };
  const dreamer::LossOutputs out =
      graph.agent.loss(batch, loss_draws(graph), graph.norm_states(), tap);
  output_losses(graph, out);
  graph.output_states("state.", out.states);
  const std::vector<Tensor> grads = gradients(out.total, graph.params);
  graph.output("grad_norm", optimizers::norm(grads));
  for (size_t i = 0; i < grads.size(); ++i) {
    graph.output("grad." + graph.specs[i].name, grads[i]);
  }
  run.add_expected(graph.run());
}

}  // namespace

void dreamer_loss_cases(const Run& run) { compute_loss(run, DType::F32); }

void dreamer_bf16_cases(const Run& run) { compute_loss(run, DType::BF16); }

}  // namespace kinema::verification
