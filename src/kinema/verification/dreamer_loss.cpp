#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>

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

double root_mean_square(const HostArray& x) {
  const HostArray wide = convert(x, DType::F32);
  double squares = 0;
  for (const float value : wide.as<float>()) {
    squares += static_cast<double>(value) * value;
  }
  return std::sqrt(squares / static_cast<double>(std::max<int64_t>(1, x.shape.elements())));
}

/// The case's limits are twice the distance between the original in bfloat16 and in float32, as a
/// share of the float32 values (its `gap_to_float32`). Shares of the bfloat16 values would be too
/// small where these are: the original adds up the gradient of a bias in bfloat16, which stops
/// growing at 8 where the sum in float32 is 39.
Run with_float32_shares(const Run& run) {
  constexpr std::string_view kEnd = "_bf16";
  std::string name = run.c.name();
  name = name.substr(0, name.size() - kEnd.size()) + "_loss";
  if (!std::filesystem::exists(run.c.folder() / "io" / (name + ".safetensors"))) {
    return run;
  }
  const Case wide(run.c.folder(), name);
  const Limits limits(run.c.about(), Limits::Which::LONGEST);
  LimitTable by_float32;
  for (const std::string& tensor : run.c.names("")) {
    if (!run.expects(tensor) || !wide.has(tensor) || !is_float(run.tensor(tensor).shape.dtype)) {
      continue;
    }
    const Limit limit = limits.of(tensor);
    if (limit.rms_of_rms) {
      const double unit =
          std::max(root_mean_square(wide.tensor(tensor)), root_mean_square(run.tensor(tensor)));
      by_float32.push_back({tensor, {.rms = *limit.rms_of_rms * unit}});
    }
  }
  return run.with(by_float32);
}

}  // namespace

void dreamer_loss_cases(const Run& run) { compute_loss(run, DType::F32); }

void dreamer_bf16_cases(const Run& run) { compute_loss(with_float32_shares(run), DType::BF16); }

}  // namespace kinema::verification
