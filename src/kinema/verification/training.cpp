#include <algorithm>

#include "kinema/networks/open.h"
#include "kinema/training/network_model.h"
#include "kinema/training/trainer.h"
#include "kinema/verification/compare.h"
#include "kinema/verification/flow.h"
#include "kinema/verification/session.h"
#include "kinema/verification/steps.h"
#include "kinema/weights/weights.h"

namespace kinema::verification {
namespace {

constexpr Limit kMoment{.of_largest = 1e-3};

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

  std::vector<Row> rows;
  run_steps(rows, c, name, learning_rate, trainer);
  const training::StateView state = trainer.state();
  add_state(rows, c, name, "param.", masters, state.params(), after_adam(learning_rate));
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
