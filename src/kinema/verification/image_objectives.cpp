#include <algorithm>
#include <string_view>

#include "kinema/schedulers/diffusion.h"
#include "kinema/schedulers/flow_match.h"
#include "kinema/training/ema.h"
#include "kinema/training/objective.h"
#include "kinema/verification/compare.h"
#include "kinema/verification/limits.h"
#include "kinema/verification/session.h"

// How training of images draws noise levels, mixes, and weighs.
namespace kinema::verification {
namespace {

using schedulers::Density;
using schedulers::FlowMatch;
using schedulers::TimestepBias;

HostArray as_f32(const std::vector<float>& values) {
  return HostArray::f32({static_cast<int64_t>(values.size())}, values);
}

/// Whole numbers as floats.
HostArray as_floats(const HostArray& whole) {
  const auto values = whole.as<int64_t>();
  return as_f32({values.begin(), values.end()});
}

/// f(x) of each element.
template <typename F>
HostArray mapped(const HostArray& x, F f) {
  std::vector<float> out;
  for (const float value : x.as<float>()) {
    out.push_back(static_cast<float>(f(static_cast<double>(value))));
  }
  return as_f32(out);
}

class Rows {
 public:
  explicit Rows(const Case& c) : case_(c), limits_(c.about(), Limits::Which::LONGEST) {}

  void add(const std::string& tensor, const HostArray& value) {
    rows_.push_back(compare(case_.name(), tensor, value, case_.tensor(tensor), limits_.of(tensor)));
  }
  void add_unsupported(const std::string& tensor) {
    rows_.push_back(unsupported(case_.name(), tensor));
  }
  std::vector<Row> take() { return std::move(rows_); }

 private:
  const Case& case_;
  Limits limits_;
  std::vector<Row> rows_;
};

/// `logit_normal_shifted`: the densities of the case, by its words.
FlowMatch flow_of(const std::string& kind) {
  FlowMatch flow = schedulers::kFluxFlow;
  flow.density =
      schedulers::density_from_string(kind.starts_with("logit_normal") ? "logit_normal" : kind);
  if (kind == "logit_normal_shifted") {
    flow.logit_mean = 0.5;
    flow.logit_std = 0.8;
  }
  return flow;
}

/// The graph's outputs on the host, of inputs by their values.
std::vector<HostArray> evaluated(
    Session& session, const std::vector<HostArray>& values,
    const std::function<std::vector<Tensor>(std::span<const Tensor>)>& f) {
  Graph graph;
  std::vector<Tensor> inputs;
  for (const HostArray& value : values) {
    inputs.push_back(graph.input(value.shape));
  }
  const std::vector<Tensor> outputs = f(inputs);
  return session.program(graph, outputs, "objective").run_on_host(values);
}

void add_mixtures(Rows& rows, const Case& c, Session& session) {
  const HostArray timestep = as_floats(c.tensor("timestep"));
  const std::vector<HostArray> made = evaluated(
      session, {c.tensor("latents"), c.tensor("noise"), timestep},
      [](std::span<const Tensor> in) -> std::vector<Tensor> {
        training::ObjectiveOptions options{.diffusion = training::DiffusionObjective{}};
        const Tensor noisy = training::flow_batch(in[0], in[1], in[2], options).noisy;
        options.diffusion->diffusion.prediction_type = schedulers::Prediction::V_PREDICTION;
        return {noisy, training::flow_batch(in[0], in[1], in[2], options).target};
      });
  rows.add("noisy", made[0]);
  rows.add("velocity", made[1]);
}

}  // namespace

std::vector<Row> flux_objective_rows(const Case& c, Session& /*session*/) {
  Rows rows(c);
  constexpr std::string_view kDraws = ".draws";
  for (const std::string& name : c.names("")) {
    if (!name.ends_with(kDraws)) {
      continue;
    }
    const std::string kind = name.substr(0, name.size() - kDraws.size());
    const FlowMatch flow = flow_of(kind);
    const HostArray u = mapped(c.tensor(name), [&](double x) { return flow.density_of(x); });
    const HostArray sigma =
        mapped(u, [&](double x) { return flow.sigma(flow.timestep(flow.level(x))); });
    rows.add(kind + ".u", u);
    rows.add(kind + ".sigma", sigma);
    rows.add(kind + ".timestep", mapped(sigma, [](double s) { return 1000.0 * s; }));
    rows.add(kind + ".index",
             mapped(sigma, [](double s) { return 1000.0 - std::round(1000.0 * s); }));
  }
  FlowMatch weighing = schedulers::kFluxFlow;
  for (const auto& [name, weighting] : {std::pair{"sigma_sqrt", schedulers::Weighting::SIGMA_SQRT},
                                        {"cosmap", schedulers::Weighting::COSMAP},
                                        {"none", schedulers::Weighting::NONE}}) {
    weighing.weighting = weighting;
    rows.add(std::string("weights.") + name, mapped(c.tensor("weights.sigma"), [&](double s) {
               return weighing.weight(1000.0 * s);
             }));
  }
  // MaxDiffusion draws one of as many levels as it samples with, all alike often.
  const HostArray drawn = c.tensor("maxdiffusion.drawn");
  const FlowMatch levels{.shift = 1.0, .sigma_min = 0.0, .levels = drawn.shape.elements()};
  std::vector<float> values;
  for (int64_t i = 0; i < levels.levels; ++i) {
    const double u = (static_cast<double>(i) + 0.5) / static_cast<double>(levels.levels);
    values.push_back(static_cast<float>(levels.level(u)));
  }
  rows.add("maxdiffusion.drawn", as_f32(values));
  values.push_back(0.0F);
  rows.add("maxdiffusion.grid", as_f32(values));
  return rows.take();
}

std::vector<Row> sdxl_objective_rows(const Case& c, Session& session) {
  Rows rows(c);
  const std::vector<float> alphas = schedulers::alphas_cumprod({});
  rows.add("alphas_cumprod", as_f32(alphas));
  rows.add("snr", mapped(as_f32(alphas), [](double a) { return a / (1.0 - a); }));
  for (const std::string& name : c.names("gamma")) {
    const size_t point = name.find('.');
    const double gamma = std::stod(name.substr(std::string_view("gamma").size()));
    rows.add(name, as_f32(schedulers::min_snr_weights(
                       alphas, gamma, schedulers::prediction_from_string(name.substr(point + 1)))));
  }
  add_mixtures(rows, c, session);
  const std::vector<HostArray> offset =
      evaluated(session, {c.tensor("noise"), c.tensor("offset")},
                [](std::span<const Tensor> in) -> std::vector<Tensor> {
                  return {training::with_offset(in[0], in[1], 0.1)};
                });
  rows.add("noise_with_offset", offset[0]);
  for (const auto& [name, bias] :
       {std::pair{"later", TimestepBias{TimestepBias::Strategy::LATER, 3.0, 0.25}},
        {"earlier", TimestepBias{TimestepBias::Strategy::EARLIER, 3.0, 0.25}},
        {"earlier_maxdiffusion", TimestepBias{TimestepBias::Strategy::EARLIER, 3.0, 0.75}},
        {"range", TimestepBias{TimestepBias::Strategy::RANGE, 3.0, 0.25, 200, 500}}}) {
    const std::vector<double> each = schedulers::timestep_probabilities(bias);
    rows.add(std::string("bias.") + name, as_f32({each.begin(), each.end()}));
  }
  for (const bool warmup : {false, true}) {
    const training::Ema ema{.decay = 0.999, .update_after_step = warmup ? 0 : 2, .warmup = warmup};
    const std::vector<HostArray> decay = evaluated(
        session, {as_floats(c.tensor("ema.step"))},
        [&](std::span<const Tensor> in) -> std::vector<Tensor> { return {ema.decay_at(in[0])}; });
    rows.add(warmup ? "ema.decay_warmup" : "ema.decay", decay[0]);
  }
  return rows.take();
}

}  // namespace kinema::verification
