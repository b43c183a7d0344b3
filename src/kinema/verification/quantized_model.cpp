// A whole transformer under quantization: predictions, and gradients of some parameters.
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/graph/autodiff.h"
#include "kinema/networks/open.h"
#include "kinema/verification/compare.h"
#include "kinema/verification/limits.h"
#include "kinema/verification/quantization.h"
#include "kinema/verification/session.h"
#include "kinema/weights/weights.h"

namespace kinema::verification {
namespace {

/// What the case's JSON calls the ways in which the model is run.
nn::Quantization quantization_of_run(const Case& c, const std::string& run) {
  if (run == "plain") {
    return {};
  }
  nn::Quantization out = quantization_of(c.about());
  if (run == "linear" || run == "linear_original") {
    out.module_path = "(?!.*attention_op).*";
  } else {
    check(run == "all", "[verify] the run `{}` is not known", run);
  }
  out.original_residuals = run == "linear_original";
  return out;
}

using Values = std::map<std::string, HostArray>;

/// Prediction, loss, norm and gradients, by the case's names without the run's.
Values run_model(const Case& c, const nn::ModelOptions& options, Session& session) {
  const networks::Network network = networks::open(c.model());
  const auto specs = network->parameters(options);
  Graph graph;
  const std::vector<Tensor> params = parameter_inputs(graph, specs);
  std::vector<pjrt::Buffer> buffers = weights::load(c.model(), specs, session.client());
  const auto input = [&](const char* name) {
    const HostArray array = c.tensor(name);
    buffers.push_back(session.client().to_device(array));
    return graph.input(array.shape, name);
  };
  networks::Inputs in;
  in.latents = input("noisy_latents");
  in.timestep = input("timestep");
  in.text = input("encoder_hidden_states");
  const Tensor target = input("target");
  const Tensor prediction = network->forward(params, options, in).prediction;
  const Tensor loss = mean(square(target - prediction));
  const std::vector<Tensor> grads = gradients(loss, params);
  Tensor squares;
  for (const Tensor g : grads) {
    squares = squares ? squares + sum(square(g)) : sum(square(g));
  }
  std::vector<Tensor> outputs{prediction, loss, sqrt(squares)};
  outputs.insert(outputs.end(), grads.begin(), grads.end());
  const auto results = session.program(graph, outputs, "quantized_transformer")
                           .run(std::span<const pjrt::Buffer>(buffers));
  Values out{{"prediction", results[0].to_host()},
             {"loss", results[1].to_host()},
             {"grad_norm", results[2].to_host()}};
  for (size_t i = 0; i < specs.size(); ++i) {
    for (auto& [key, value] : unstack(specs[i], results[i + 3].to_host())) {
      out.emplace("grad." + key, std::move(value));
    }
  }
  return out;
}

/// The root mean square of a - b over that of b.
double distance(const HostArray& a, const HostArray& b) {
  const HostArray wide_a = convert(a, DType::F64);
  const HostArray wide_b = convert(b, DType::F64);
  const auto x = wide_a.as<double>();
  const auto y = wide_b.as<double>();
  check(x.size() == y.size(), "[verify] {} is compared with {}", to_string(a.shape),
        to_string(b.shape));
  double differences = 0.0;
  double squares = 0.0;
  for (size_t i = 0; i < x.size(); ++i) {
    differences += (x[i] - y[i]) * (x[i] - y[i]);
    squares += y[i] * y[i];
  }
  return std::sqrt(differences / squares);
}

/// How far quantization moves results from those without, over how far it moves the reference's:
/// codes that flip change values, but hardly this. `what`: prediction, or the gradients' mean.
Row away_from_plain(const Case& c, const std::string& name, const std::string& run,
                    const std::string& what, const Values& values, const io::Json& range) {
  double ours = 0.0;
  double theirs = 0.0;
  for (const auto& [tensor, value] : values) {
    const std::string plain = "plain." + tensor;
    if ((tensor == what || tensor.starts_with(what + ".")) && c.has(run + "." + tensor) &&
        c.has(plain)) {
      ours += distance(value, c.tensor(plain));
      theirs += distance(c.tensor(run + "." + tensor), c.tensor(plain));
    }
  }
  const double low = range.items().at(0).as_number();
  const double high = range.items().at(1).as_number();
  const auto one = [](double x) { return HostArray::f32({1}, std::vector{static_cast<float>(x)}); };
  return compare(name, run + " away from plain: " + what, one(ours / theirs),
                 one((low + high) / 2.0), {.absolute = (high - low) / 2.0});
}

std::vector<Row> rows_of(const Case& c, const Session::Form& form, const std::string& run,
                         Session& session) {
  nn::ModelOptions options = form.options;
  options.precision = Precision::HIGHEST;
  options.quantization = quantization_of_run(c, run);
  const Values values = run_model(c, options, session);
  const Limits limits(c.about());
  const std::string name = c.name() + form.suffix;
  std::vector<Row> rows;
  for (const auto& [tensor, value] : values) {
    const std::string full = run + "." + tensor;
    if (c.has(full)) {
      // Without quantization nothing flips: MaxDiffusion's model is within 1e-6 of the reference of
      // the other cases, and so limited as those are.
      const Limit limit = run != "plain" ? limits.of(full)
                          : tensor == "prediction"
                              ? Limit{.absolute = kForwardAbsolute, .relative = kForwardRelative}
                          : tensor.starts_with("grad.") ? Limit{.of_largest = 1e-3}
                                                        : Limit{.relative = 1e-4};
      rows.push_back(compare(name, full, value, c.tensor(full), limit));
    }
  }
  if (const io::Json* away = c.about().at("limits").find(run + " away from plain")) {
    for (const auto& [what, range] : away->members()) {
      rows.push_back(away_from_plain(c, name, run, what, values, range));
    }
  }
  return rows;
}

}  // namespace

std::vector<Row> quantized_model_rows(const Case& c, Session& session) {
  std::vector<Row> rows;
  for (const auto& [run, what] : c.about().at("runs").members()) {
    for (const Session::Form& form : session.forms()) {
      std::ranges::move(rows_of(c, form, run, session), std::back_inserter(rows));
    }
  }
  return rows;
}

}  // namespace kinema::verification
