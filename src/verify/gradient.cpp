#include <algorithm>

#include "graph/autodiff.h"
#include "train/objective.h"
#include "train/wan_model.h"
#include "verify/compare.h"
#include "verify/flow.h"
#include "verify/session.h"
#include "weights/weights.h"

namespace kinema::verify {
namespace {

/// What the fixtures' README asks of gradients: a thousandth of each tensor's largest magnitude.
constexpr Limit kGradient{.of_largest = 1e-3};
constexpr Limit kForward{.absolute = kForwardAbsolute, .relative = kForwardRelative};
constexpr Limit kScalar{.relative = 1e-4};

Tensor norm_of(std::span<const Tensor> gradients) {
  Tensor squares;
  for (const Tensor g : gradients) {
    const Tensor here = sum(square(g));
    squares = squares ? squares + here : here;
  }
  return sqrt(squares);
}

std::vector<Row> rows_of(const Case& c, const Session::Form& form, Session& session) {
  const wan::TransformerConfig config = weights::read_config(c.model());
  const auto specs = wan::parameters(config, form.options);
  const std::string name = c.name() + form.suffix;

  Graph graph;
  std::vector<Tensor> params;
  for (const nn::ParamSpec& spec : specs) {
    params.push_back(graph.input(spec.shape, spec.name));
  }
  const std::vector<std::string> inputs{"latents", "noise", "timestep", "encoder_hidden_states"};
  std::vector<Tensor> in;
  for (const std::string& input : inputs) {
    in.push_back(graph.input(c.tensor(input).shape, input));
  }
  train::ObjectiveOptions objective;
  objective.flow.sigma_min = sigma_min_of(c.tensor("timestep"), c.tensor("sigma"));
  const train::FlowBatch flow = train::flow_batch(in[0], in[1], in[2], objective);
  const Tensor prediction = train::wan_model(config, form.options)(
      params, {.noisy = flow.noisy, .timestep = in[2], .text = in[3]});
  const Tensor loss = train::flow_loss(prediction, flow.target, {});

  std::vector<Tensor> wrt = params;
  wrt.push_back(flow.noisy);
  wrt.push_back(in[3]);
  const std::vector<Tensor> grads = gradients(loss, wrt);
  const std::vector<std::string> scalars{"noisy_latents", "target", "prediction", "loss",
                                         "grad_norm"};
  std::vector<Tensor> outputs{flow.noisy, flow.target, prediction, loss,
                              norm_of(std::span(grads).first(params.size()))};
  outputs.insert(outputs.end(), grads.begin(), grads.end());

  std::vector<pjrt::Buffer> buffers = weights::load(c.model(), specs, session.client());
  for (const std::string& input : inputs) {
    buffers.push_back(session.client().to_device(c.tensor(input)));
  }
  const auto results = session.program(graph, outputs, "transformer_grad")
                           .run(std::span<const pjrt::Buffer>(buffers));

  std::vector<Row> rows;
  for (size_t i = 0; i < scalars.size(); ++i) {
    const bool scalar = scalars[i] == "loss" || scalars[i] == "grad_norm";
    rows.push_back(compare(name, scalars[i], results[i].to_host(), c.tensor(scalars[i]),
                           scalar ? kScalar : kForward));
  }
  const size_t first = scalars.size();
  for (size_t i = 0; i < specs.size(); ++i) {
    for (const auto& [key, value] : unstack(specs[i], results[first + i].to_host())) {
      const std::string tensor = "grad." + key;
      rows.push_back(compare(name, tensor, value, c.tensor(tensor), kGradient));
    }
  }
  const size_t last = first + specs.size();
  rows.push_back(compare(name, "grad_input.hidden_states", results[last].to_host(),
                         c.tensor("grad_input.hidden_states"), kGradient));
  rows.push_back(compare(name, "grad_input.encoder_hidden_states", results[last + 1].to_host(),
                         c.tensor("grad_input.encoder_hidden_states"), kGradient));
  return rows;
}

}  // namespace

double sigma_min_of(const HostArray& timestep, const HostArray& sigma) {
  const HostArray t = convert(timestep, DType::F64);
  const HostArray s = convert(sigma, DType::F64);
  // sigma = (1 - t') m + t': the smallest t' tells m best.
  const auto times = t.as<double>();
  const auto smallest = std::ranges::min_element(times) - times.begin();
  const double part = times[smallest] / 1000.0;
  const double m = (s.as<double>()[smallest] - part) / (1.0 - part);
  // Both sides are float32: what is within their rounding of a known value is that value.
  constexpr double kRounding = 1e-6;
  for (const double known : {0.0, schedulers::FlowMatch().sigma_min}) {
    if (std::abs(m - known) < kRounding) {
      return known;
    }
  }
  return m;
}

std::vector<Row> gradient_rows(const Case& c, Session& session) {
  std::vector<Row> rows;
  for (const Session::Form& form : session.forms()) {
    std::ranges::move(rows_of(c, form, session), std::back_inserter(rows));
  }
  return rows;
}

}  // namespace kinema::verify
