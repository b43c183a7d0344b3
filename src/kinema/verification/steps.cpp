#include "kinema/verification/steps.h"

#include <fmt/format.h>

#include <algorithm>

#include "kinema/core/error.h"

namespace kinema::verification {
namespace {

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

}  // namespace

HostArray StepData::operator[](const char* name) const { return case_.tensor(prefix_ + name); }

StepData::StepData(const Case& c, int64_t step) : case_(c), prefix_(fmt::format("step{}.", step)) {}

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

Limit after_adam(double learning_rate) { return {.absolute = 2.0 * learning_rate, .rms = 1e-4}; }

training::StepResult run_step(const Case& c, int64_t i, double learning_rate,
                              training::Trainer& trainer) {
  const StepData data(c, i);
  const data::Batch batch{.latents = data["latents"],
                          .encoder_hidden_states = data["encoder_hidden_states"]};
  const std::vector<HostArray> draw{data["noise"], data["timestep"],
                                    loss_weights(c, i, batch.latents.shape.dims[0])};
  return trainer.run(i, learning_rate, batch, draw);
}

void run_steps(std::vector<Row>& rows, const Case& c, const std::string& name, double learning_rate,
               training::Trainer& trainer,
               const std::function<void(int64_t step, bool is_last)>& before) {
  constexpr Limit kScalar{.relative = 1e-4};
  const HostArray expected = c.tensor("loss");
  const int64_t steps = expected.shape.elements();
  std::vector<float> losses;
  std::vector<float> norms;
  for (int64_t i = 0; i < steps; ++i) {
    if (before) {
      before(i, i + 1 == steps);
    }
    const training::StepResult result = run_step(c, i, learning_rate, trainer);
    losses.push_back(static_cast<float>(result.loss));
    norms.push_back(static_cast<float>(result.gradient_norm));
  }
  rows.push_back(compare(name, "loss", HostArray::f32({steps}, losses), expected, kScalar));
  rows.push_back(
      compare(name, "grad_norm", HostArray::f32({steps}, norms), c.tensor("grad_norm"), kScalar));
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

}  // namespace kinema::verification
