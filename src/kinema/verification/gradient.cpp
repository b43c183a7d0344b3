#include <algorithm>
#include <array>
#include <cmath>

#include "kinema/graph/autodiff.h"
#include "kinema/networks/open.h"
#include "kinema/training/network_model.h"
#include "kinema/training/objective.h"
#include "kinema/verification/compare.h"
#include "kinema/verification/flow.h"
#include "kinema/verification/session.h"
#include "kinema/weights/weights.h"

namespace kinema::verification {
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

/// Inputs after the parameters, and outputs before the gradients, by the names of the case.
constexpr std::array<const char*, 4> kInputs{"latents", "noise", "timestep",
                                             "encoder_hidden_states"};
constexpr std::array<const char*, 5> kOutputs{"noisy_latents", "target", "prediction", "loss",
                                              "grad_norm"};

/// kOutputs, then the gradients of every parameter and of the network's two inputs.
std::vector<Tensor> build(Graph& graph, const Case& c, const networks::Network& network,
                          const nn::ModelOptions& options, std::span<const nn::ParamSpec> specs) {
  const std::vector<Tensor> params = parameter_inputs(graph, specs);
  std::array<Tensor, kInputs.size()> in;
  for (size_t i = 0; i < in.size(); ++i) {
    in[i] = graph.input(c.tensor(kInputs[i]).shape, kInputs[i]);
  }
  const auto& [latents, noise, timestep, text] = in;
  training::ObjectiveOptions objective;
  objective.flow.sigma_min = sigma_min_of(c.tensor("timestep"), c.tensor("sigma"));
  const training::FlowBatch flow = training::flow_batch(latents, noise, timestep, objective);
  const Tensor prediction = training::network_model(network, options)(
      params, {.noisy = flow.noisy, .timestep = timestep, .text = text});
  const Tensor loss = training::flow_loss(prediction, flow, {});

  std::vector<Tensor> wrt = params;
  wrt.insert(wrt.end(), {flow.noisy, text});
  const std::vector<Tensor> grads = gradients(loss, wrt);
  std::vector<Tensor> outputs{flow.noisy, flow.target, prediction, loss,
                              norm_of(std::span(grads).first(params.size()))};
  outputs.insert(outputs.end(), grads.begin(), grads.end());
  return outputs;
}

std::vector<Row> rows_of(const Case& c, const Session::Form& form, Session& session) {
  const networks::Network network = networks::open(c.model());
  const auto specs = network->parameters(form.options);
  const std::string name = c.name() + form.suffix;
  Graph graph;
  const std::vector<Tensor> outputs = build(graph, c, network, form.options, specs);
  std::vector<pjrt::Buffer> buffers = weights::load(c.model(), specs, session.client());
  for (const char* input : kInputs) {
    buffers.push_back(session.client().to_device(c.tensor(input)));
  }
  const auto results = session.program(graph, outputs, "transformer_grad")
                           .run(std::span<const pjrt::Buffer>(buffers));

  std::vector<Row> rows;
  for (size_t i = 0; i < kOutputs.size(); ++i) {
    const HostArray expected = c.tensor(kOutputs[i]);
    rows.push_back(compare(name, kOutputs[i], results[i].to_host(), expected,
                           expected.shape.rank() == 0 ? kScalar : kForward));
  }
  const auto add = [&](const std::string& tensor, const HostArray& value) {
    rows.push_back(compare(name, tensor, value, c.tensor(tensor), kGradient));
  };
  const size_t last = kOutputs.size() + specs.size();
  for (size_t i = 0; i < specs.size(); ++i) {
    for (const auto& [key, value] : unstack(specs[i], results[kOutputs.size() + i].to_host())) {
      add("grad." + key, value);
    }
  }
  add("grad_input.hidden_states", results[last].to_host());
  add("grad_input.encoder_hidden_states", results[last + 1].to_host());
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

}  // namespace kinema::verification
