#include "kinema/graph/autodiff.h"
#include "kinema/training/laprop.h"
#include "kinema/verification/dreamer.h"

namespace kinema::verification {
namespace {

void expect_losses(CaseGraph& graph, const dreamer::LossOutputs& out) {
  graph.expect("loss", out.total);
  graph.expect("tokens", out.tokens);
  graph.expect("post.deter", out.features.deter);
  graph.expect("post.stoch", out.features.stoch);
  graph.expect("post.logit", out.features.logit);
  for (const auto& [name, loss] : out.losses) {
    graph.expect("loss." + name, loss);
  }
  for (const auto& [name, metric] : out.metrics) {
    graph.expect("metric." + name, metric);
  }
}

void expect_states(CaseGraph& graph, const dreamer::AgentConfig& config,
                   const dreamer::NormStates& states) {
  const auto add = [&](const std::vector<std::string>& names, const std::vector<Tensor>& values) {
    for (size_t i = 0; i < names.size(); ++i) {
      graph.expect("state." + names[i], values[i]);
    }
  };
  const auto names = dreamer::norm_state_names(config);
  add(names.returns, states.returns);
  add(names.values, states.values);
  add(names.advantages, states.advantages);
}

std::vector<Row> loss_rows(const Case& c, Session& session, DType dtype) {
  const DreamerModel model(c.model());
  CaseGraph graph(c);
  nn::ModelOptions options = session.model_options();
  options.activations_dtype = dtype;
  const std::vector<nn::ParamSpec> specs = dreamer::parameters(model.config());
  const dreamer::Agent agent = model.agent(graph, options);
  const dreamer::RssmState carried{.deter = convert(graph.input("carry.deter"), dtype),
                                   .stoch = convert(graph.input("carry.stoch"), dtype)};
  const dreamer::Batch batch = dreamer::batch_of(model.config(), graph.inputs("data."), carried);
  const auto tap = [&](const std::string& name, Tensor value) {
    constexpr std::string_view kRollout = "imag.";
    const std::string index =
        name.starts_with("imag.act.") ? "index." + name.substr(kRollout.size()) : name;
    for (const std::string& tensor : {"tap." + name, index}) {
      if (graph.expects(tensor)) {
        graph.expect(tensor, value);
      }
    }
  };
  const dreamer::LossOutputs out =
      agent.loss(batch, loss_draws(graph, ""), model.norm_states(graph), tap);
  expect_losses(graph, out);
  expect_states(graph, model.config(), out.states);
  tap("index.post", out.features.index);
  std::vector<Tensor> params;
  for (const nn::ParamSpec& spec : specs) {
    params.push_back(graph.input("parameter " + spec.name));
  }
  const std::vector<Tensor> grads = gradients(out.total, params);
  graph.expect("grad_norm", training::norm(grads));
  for (size_t i = 0; i < specs.size(); ++i) {
    graph.expect("grad." + specs[i].name, grads[i]);
  }
  return graph.run(session);
}

}  // namespace

std::vector<Row> dreamer_loss_rows(const Case& c, Session& session) {
  return loss_rows(c, session, DType::F32);
}

std::vector<Row> dreamer_bf16_rows(const Case& c, Session& session) {
  return loss_rows(c, session, DType::BF16);
}

}  // namespace kinema::verification
