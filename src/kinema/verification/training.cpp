#include <fmt/format.h>

#include <algorithm>

#include "kinema/networks/open.h"
#include "kinema/training/network_model.h"
#include "kinema/training/trainer.h"
#include "kinema/verification/compare.h"
#include "kinema/verification/flow.h"
#include "kinema/verification/session.h"
#include "kinema/weights/weights.h"

namespace kinema::verification {
namespace {

constexpr Limit kScalar{.relative = 1e-4};
constexpr Limit kMoment{.of_largest = 1e-3};

/// Tensors of step i of a case.
class StepData {
 public:
  StepData(const Case& c, int64_t step) : case_(c), prefix_(fmt::format("step{}.", step)) {}
  HostArray operator[](const char* name) const { return case_.tensor(prefix_ + name); }

 private:
  const Case& case_;
  std::string prefix_;
};

training::AdamWOptions adamw_of(const io::Json& optimizer) {
  training::AdamWOptions options{.b1 = optimizer.at("b1").as_number(),
                                 .b2 = optimizer.at("b2").as_number(),
                                 .eps = optimizer.at("eps").as_number(),
                                 .weight_decay = optimizer.at("weight_decay").as_number()};
  if (const io::Json& norm = optimizer.at("max_grad_norm"); !norm.is_null()) {
    options.max_norm = norm.as_number();
  }
  return options;
}

/// The weights [b] of step i; ones where the case has none.
HostArray loss_weights(const Case& c, int64_t step, int64_t batch) {
  std::vector<float> weights(static_cast<size_t>(batch), 1.0F);
  if (c.has("loss_weights")) {
    const HostArray all = c.tensor("loss_weights");
    check(all.shape.rank() == 2 && all.shape.dims[1] == batch && step < all.shape.dims[0],
          "[verify] loss_weights is {}, expected f32[steps,{}]", to_string(all.shape), batch);
    std::ranges::copy(all.as<float>().subspan(static_cast<size_t>(step * batch), weights.size()),
                      weights.begin());
  }
  return HostArray::f32({batch}, weights);
}

void add_state(std::vector<Row>& rows, const Case& c, const std::string& name,
               const std::string& prefix, std::span<const nn::ParamSpec> specs,
               std::span<const runtime::Array* const> buffers, const Limit& limit) {
  for (size_t i = 0; i < specs.size(); ++i) {
    for (const auto& [key, value] : unstack(specs[i], buffers[i]->to_host())) {
      if (c.has(prefix + key)) {
        rows.push_back(compare(name, prefix + key, value, c.tensor(prefix + key), limit));
      }
    }
  }
}

std::vector<Row> rows_of(const Case& c, const Session::Form& form, Session& session) {
  const io::Json& optimizer = c.about().at("optimizer");
  const double learning_rate = optimizer.at("learning_rate").as_number();
  const networks::Network network = networks::open(c.model());
  const auto specs = network->parameters(form.options);
  const auto masters = training::state_specs(specs);
  const std::string name = c.name() + form.suffix;

  training::StepOptions step{.adamw = adamw_of(optimizer), .given_draw = true};
  const StepData first(c, 0);
  step.objective.flow.sigma_min = sigma_min_of(first["timestep"], first["sigma"]);
  const training::BatchShapes shapes{.latents = first["latents"].shape,
                                     .text = first["encoder_hidden_states"].shape};
  training::Trainer trainer(
      session.client(), specs, training::network_model(network, form.options), shapes, step,
      training::fresh_state(weights::load(c.model(), masters, session.client()), masters,
                            /*ema=*/false, session.client()),
      {.program = session.program_options()});

  const HostArray expected = c.tensor("loss");
  const int64_t steps = expected.shape.elements();
  std::vector<float> losses;
  std::vector<float> norms;
  for (int64_t i = 0; i < steps; ++i) {
    const StepData data(c, i);
    const data::Batch batch{.latents = data["latents"],
                            .encoder_hidden_states = data["encoder_hidden_states"]};
    const std::vector<HostArray> draw{data["noise"], data["timestep"],
                                      loss_weights(c, i, shapes.latents.dims[0])};
    const training::StepResult result = trainer.run(i, learning_rate, batch, draw);
    losses.push_back(static_cast<float>(result.loss));
    norms.push_back(static_cast<float>(result.gradient_norm));
  }

  std::vector<Row> rows;
  rows.push_back(compare(name, "loss", HostArray::f32({steps}, losses), expected, kScalar));
  rows.push_back(
      compare(name, "grad_norm", HostArray::f32({steps}, norms), c.tensor("grad_norm"), kScalar));
  const training::StateView state = trainer.state();
  // Where a gradient is nearly zero its rounding decides the sign of a whole Adam step.
  add_state(rows, c, name, "param.", masters, state.params(),
            {.absolute = 2.0 * learning_rate, .rms = 1e-4});
  add_state(rows, c, name, "mu.", masters, training::pointers_to<runtime::Array>(state.parts.mu),
            kMoment);
  add_state(rows, c, name, "nu.", masters, training::pointers_to<runtime::Array>(state.parts.nu),
            kMoment);
  return rows;
}

}  // namespace

std::vector<Row> train_rows(const Case& c, Session& session) {
  std::vector<Row> rows;
  for (const Session::Form& form : session.forms()) {
    std::ranges::move(rows_of(c, form, session), std::back_inserter(rows));
  }
  return rows;
}

}  // namespace kinema::verification
