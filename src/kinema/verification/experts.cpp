#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <utility>

#include "kinema/networks/open.h"
#include "kinema/sample/experts.h"
#include "kinema/sample/pipeline_folder.h"
#include "kinema/training/experts.h"
#include "kinema/training/network_model.h"
#include "kinema/training/trainer.h"
#include "kinema/verification/compare.h"
#include "kinema/verification/flow.h"
#include "kinema/verification/limits.h"
#include "kinema/verification/session.h"
#include "kinema/verification/steps.h"
#include "kinema/weights/weights.h"

namespace kinema::verification {
namespace {

/// Those samples of an array [b, ...].
HostArray samples_of(const HostArray& array, std::span<const size_t> samples) {
  Shape shape = array.shape;
  const size_t size = array.bytes.size() / static_cast<size_t>(shape.dims[0]);
  shape.dims[0] = std::ssize(samples);
  HostArray out(shape);
  auto at = out.bytes.begin();
  for (const size_t i : samples) {
    at = std::ranges::copy(std::span(array.bytes).subspan(i * size, size), at).out;
  }
  return out;
}

/// The numbers of the expert's samples in a batch of these timesteps.
std::vector<size_t> samples_of_expert(const HostArray& timesteps, int64_t expert, double boundary) {
  std::vector<size_t> out;
  const std::span<const float> values = timesteps.as<float>();
  for (size_t i = 0; i < values.size(); ++i) {
    if (training::expert_at(values[i], boundary) == expert) {
      out.push_back(i);
    }
  }
  return out;
}

/// The two networks with a state each, and a program for each number of samples.
class Pair {
 public:
  Pair(const Case& c, Session& session) : session_(session), options_(session.model_options()) {
    for (const io::Json& folder : c.about().at("models").items()) {
      const std::filesystem::path path = c.folder() / folder.as_string();
      network_ = networks::open(path);
      specs_ = network_->parameters(options_);
      const auto masters = training::state_specs(specs_);
      states_.at(opened_++) =
          training::fresh_state(weights::load(path, masters, session.client()), masters,
                                /*ema=*/false, session.client());
    }
    const StepData first(c, 0);
    step_ = {.adamw = adamw_of(c.about().at("optimizer")), .given_draw = true};
    step_.objective.flow.sigma_min = sigma_min_of(first["timestep"], first["sigma"]);
  }

  /// One step of the expert on those samples of step i.
  training::StepResult run(const Case& c, int64_t i, size_t expert, std::span<const size_t> samples,
                           double learning_rate) {
    const StepData data(c, i);
    const auto part = [&](const char* name) { return samples_of(data[name], samples); };
    const data::Batch batch{.latents = part("latents"),
                            .encoder_hidden_states = part("encoder_hidden_states")};
    const std::vector<float> ones(samples.size(), 1.0F);
    const std::vector<HostArray> draw{part("noise"), part("timestep"),
                                      HostArray::f32({std::ssize(samples)}, ones)};
    training::Trainer& trainer = trainer_for(batch);
    trainer.set_state(std::move(states_.at(expert)));
    const training::StepResult out = trainer.run(i, learning_rate, batch, draw);
    states_.at(expert) = trainer.take_state();
    return out;
  }

  const std::vector<nn::ParamSpec>& specs() const { return specs_; }
  training::StateView state(size_t expert) const { return {specs_, states_.at(expert)}; }

 private:
  training::Trainer& trainer_for(const data::Batch& batch) {
    auto& trainer = trainers_[batch.latents.shape.dims[0]];
    if (!trainer) {
      const training::BatchShapes shapes{.latents = batch.latents.shape,
                                         .text = batch.encoder_hidden_states.shape};
      trainer = std::make_unique<training::Trainer>(
          session_.client(), specs_, training::network_model(network_, options_), shapes, step_,
          training::State(), training::TrainerOptions{.program = session_.program_options()});
    }
    return *trainer;
  }

  Session& session_;
  nn::ModelOptions options_;
  networks::Network network_;
  std::vector<nn::ParamSpec> specs_;
  std::array<training::State, 2> states_;
  size_t opened_ = 0;
  training::StepOptions step_;
  std::map<int64_t, std::unique_ptr<training::Trainer>> trainers_;
};

/// Which expert the timesteps belong to, by training's rule and by sampling's.
void add_sides(std::vector<Row>& rows, const Case& c, Session& session, const Limits& limits) {
  const double boundary = c.about().at("boundary_timestep").as_number();
  const sample::Experts sampled(
      session.client(),
      sample::read_pipeline_folder(c.folder() / c.about().at("model").as_string()), {});
  const HostArray timesteps = c.tensor("timesteps");
  std::vector<float> trained_at;
  std::vector<float> sampled_at;
  for (const float t : timesteps.as<float>()) {
    trained_at.push_back(static_cast<float>(training::expert_at(t, boundary)));
    sampled_at.push_back(static_cast<float>(sampled.at_timestep(t)));
  }
  for (const auto& [name, found] :
       {std::pair{"expert", &trained_at}, std::pair{"expert (sampling)", &sampled_at}}) {
    rows.push_back(compare(c.name(), name, HostArray::f32(timesteps.shape.dims, *found),
                           c.tensor("expert"), limits.of("expert")));
  }
}

/// Gradients of a first step, by the moments that it left: mu = (1 - b1) g.
void add_gradients(std::vector<Row>& rows, const Case& c, const std::string& prefix,
                   const training::StateView& state, const Limits& limits) {
  const double b1 = c.about().at("optimizer").at("b1").as_number();
  for (size_t i = 0; i < state.specs.size(); ++i) {
    HostArray gradient = state.parts.mu[i].to_host();
    for (float& x : gradient.as<float>()) {
      x = static_cast<float>(x / (1.0 - b1));
    }
    for (const auto& [key, value] : unstack(state.specs[i], gradient)) {
      if (const std::string name = prefix + "grad." + key; c.has(name)) {
        rows.push_back(compare(c.name(), name, value, c.tensor(name), limits.of(name)));
      }
    }
  }
}

}  // namespace

std::vector<Row> expert_rows(const Case& c, Session& session) {
  constexpr std::array kPrefixes{"high.", "low."};
  const double boundary = c.about().at("boundary_timestep").as_number();
  const double learning_rate = c.about().at("optimizer").at("learning_rate").as_number();
  const Limits limits(c.about());
  std::vector<Row> rows;
  add_sides(rows, c, session, limits);

  Pair pair(c, session);
  const int64_t steps = c.tensor("loss").shape.elements();
  std::vector<float> losses;
  std::vector<float> expert_losses;
  std::vector<float> norms;
  for (int64_t i = 0; i < steps; ++i) {
    const HostArray timesteps = StepData(c, i)["timestep"];
    double whole = 0;
    for (size_t expert = 0; expert < 2; ++expert) {
      const std::vector<size_t> samples =
          samples_of_expert(timesteps, static_cast<int64_t>(expert), boundary);
      training::StepResult result;  // nothing without samples: the expert is left alone
      if (!samples.empty()) {
        result = pair.run(c, i, expert, samples, learning_rate);
        if (i == 0) {
          add_gradients(rows, c, kPrefixes[expert], pair.state(expert), limits);
        }
      }
      whole += result.loss * static_cast<double>(samples.size()) /
               static_cast<double>(timesteps.shape.elements());
      expert_losses.push_back(static_cast<float>(result.loss));
      norms.push_back(static_cast<float>(result.gradient_norm));
    }
    losses.push_back(static_cast<float>(whole));
  }
  const auto add = [&](const std::string& name, const Dims& dims, std::span<const float> found) {
    rows.push_back(
        compare(c.name(), name, HostArray::f32(dims, found), c.tensor(name), limits.of(name)));
  };
  add("loss", {steps}, losses);
  add("expert_loss", {steps, 2}, expert_losses);
  add("expert_grad_norm", {steps, 2}, norms);
  for (size_t expert = 0; expert < 2; ++expert) {
    const training::StateView state = pair.state(expert);
    const std::string prefix = kPrefixes[expert];
    add_state(rows, c, c.name(), prefix + "param.", pair.specs(), state.params(),
              limits.of(prefix + "param."));
    add_state(rows, c, c.name(), prefix + "mu.", pair.specs(),
              training::pointers_to<runtime::Array>(state.parts.mu), limits.of(prefix + "mu."));
  }
  return rows;
}

}  // namespace kinema::verification
