#include <algorithm>
#include <string_view>

#include "kinema/core/error.h"
#include "kinema/networks/open.h"
#include "kinema/training/network_model.h"
#include "kinema/verification/compare.h"
#include "kinema/verification/image_inputs.h"
#include "kinema/verification/limits.h"
#include "kinema/verification/session.h"
#include "kinema/verification/steps.h"
#include "kinema/weights/adapter.h"
#include "kinema/weights/weights.h"

// Training steps of networks that make images.
namespace kinema::verification {
namespace {

/// One step's batch and draws.
struct ImageStep {
  data::Batch batch;
  std::vector<HostArray> draw;  // noise, timesteps, weights, and guidance where it is taken
};

/// [b, c, h, w] as the latents of an image, [b, c, 1, h, w].
HostArray as_video(HostArray latents) {
  latents.shape.dims.insert(latents.shape.dims.begin() + 2, 1);
  return latents;
}

HostArray timesteps(const StepData& data, bool flow) {
  if (!flow) {
    const HostArray whole = data["timestep"];
    const auto values = whole.as<int64_t>();
    return HostArray::f32({whole.shape.elements()},
                          std::vector<float>(values.begin(), values.end()));
  }
  HostArray out = data["sigma"];
  for (float& value : out.as<float>()) {
    value *= 1000.0F;
  }
  return out;
}

ImageStep read_step(const Case& c, int64_t i, const networks::Sizes& sizes, bool flow) {
  const StepData data(c, i);
  ImageStep out;
  out.batch.latents = as_video(data["latents"]);
  out.batch.encoder_hidden_states = data["encoder_hidden_states"];
  out.batch.pooled = data[flow ? "pooled_projections" : "text_embeds"];
  if (sizes.size_ids > 0) {
    out.batch.size_ids = data["time_ids"];
  }
  const int64_t samples = out.batch.latents.shape.dims[0];
  const bool weighed = c.has(fmt::format("step{}.loss_weight", i));
  out.draw = {
      as_video(data["noise"]), timesteps(data, flow),
      weighed ? data["loss_weight"]
              : HostArray::f32({samples}, std::vector<float>(static_cast<size_t>(samples), 1.0F))};
  if (sizes.takes_guidance) {
    out.draw.push_back(data["guidance"]);
  }
  return out;
}

training::BatchShapes shapes_of(const data::Batch& batch) {
  training::BatchShapes out{.latents = batch.latents.shape,
                            .text = batch.encoder_hidden_states.shape};
  for (const training::ExtraShape& extra : training::kExtraShapes) {
    const HostArray& array = batch.*extra.array;
    if (!array.bytes.empty()) {
      out.*extra.shape = array.shape;
    }
  }
  return out;
}

/// What is trained of a network: all of it, or the case's low-rank factors beside it.
struct Trained {
  nn::ModelOptions options;
  std::vector<nn::ParamSpec> specs;
  std::vector<runtime::Array> start;  // of the specs that a state keeps
};

Trained all_of(const Case& c, const networks::Network& network, const nn::ModelOptions& options,
               Session& session) {
  Trained out{.options = options, .specs = network->parameters(options)};
  out.start = weights::load(c.model(), training::state_specs(out.specs),
                            runtime::Devices(session.client()));
  return out;
}

/// Tensors `lora.PATH` of a case, layers stacked as the spec has them.
HostArray factor_of(const Case& c, const nn::ParamSpec& spec) {
  HostArray out(spec.shape);
  auto at = out.bytes.begin();
  for (int64_t layer = 0; layer < spec.count(); ++layer) {
    const std::string key = "lora." + spec.key(layer);
    // B's are zero, and not in the case.
    const Shape shape = spec.layer_shape();
    const HostArray one = c.has(key) ? convert(c.tensor(key), shape.dtype) : HostArray(shape);
    at = std::ranges::copy(one.bytes, at).out;
  }
  return out;
}

Trained factors_of(const Case& c, const networks::Network& network, const nn::ModelOptions& options,
                   Session& session) {
  const io::Json& about = c.about();
  weights::AdapterConfig config{.rank = about.at("rank").as_int(),
                                .alpha = about.at("alpha").as_number()};
  std::vector<std::string> targets;
  for (const io::Json& each : about.at("targets").items()) {
    targets.push_back(each.as_string());
  }
  config.modules = weights::adapter_modules(network->parameters(options), targets, config.rank);
  Trained out{.options = options};
  out.options.low_ranks = config.modules;
  out.specs = network->parameters(out.options);
  weights::train_alone(out.specs, config);
  const runtime::Devices devices(session.client());
  const auto kept = training::state_specs(out.specs);
  out.start = weights::load_adapted(c.model(), {}, {}, /*seed=*/0, kept, devices);
  for (size_t i = 0; i < kept.size(); ++i) {
    if (kept[i].trained) {
      out.start[i] = devices.upload(factor_of(c, kept[i]));
    }
  }
  return out;
}

/// Gradients of the first step, `grad.PATH`: of moments that were zero, Adam's first ones are
/// 1 - b1 of them, once they were clipped.
void add_first_gradients(std::vector<Row>& rows, const Case& c, const std::string& name,
                         const Limits& limits, const training::Trainer& trainer,
                         const training::AdamWOptions& adam, double norm) {
  const training::StateView state = trainer.state();
  const std::vector<nn::ParamSpec> trained =
      training::trained_of(training::state_specs(state.specs));
  const double clip = adam.max_norm ? std::max(1.0, norm / *adam.max_norm) : 1.0;
  const auto factor = static_cast<float>(clip / (1.0 - adam.b1));
  for (size_t i = 0; i < trained.size(); ++i) {
    HostArray moment = state.parts.mu[i].to_host();
    for (float& value : moment.as<float>()) {
      value *= factor;
    }
    for (const auto& [key, value] : unstack(trained[i], moment)) {
      if (const std::string tensor = "grad." + key; c.has(tensor)) {
        rows.push_back(compare(name, tensor, value, c.tensor(tensor), limits.of(tensor)));
      }
    }
  }
}

std::vector<Row> rows_of(const Case& c, const Session::Form& form, Session& session) {
  const networks::Network network = networks::open(c.model());
  const networks::Sizes& sizes = network.sizes();
  const io::Json& optimizer = c.about().at("optimizer");
  const double learning_rate = optimizer.at("learning_rate").as_number();
  const Limits limits(c.about(), Limits::Which::LONGEST);
  Trained what = c.about().contains("rank") ? factors_of(c, network, form.options, session)
                                            : all_of(c, network, form.options, session);
  const auto masters = training::state_specs(what.specs);
  const std::string name = c.name() + form.suffix;
  const bool flow = c.has("step0.sigma");

  training::StepOptions step{.adamw = adamw_of(optimizer), .given_draw = true};
  if (flow) {
    step.objective.flow = {.shift = 1.0, .sigma_min = 0.0};
  } else {
    step.objective.diffusion = training::DiffusionObjective{};
  }
  if (sizes.takes_guidance) {
    step.objective.guidance = 0.0;  // comes with the draws
  }
  training::Trainer trainer(session.client(), what.specs,
                            training::network_model(network, what.options),
                            shapes_of(read_step(c, 0, sizes, flow).batch), step,
                            training::fresh_state(std::move(what.start), masters,
                                                  /*ema=*/false, session.client()),
                            {.program = session.program_options()});

  std::vector<Row> rows;
  const HostArray expected = c.tensor("loss");
  std::vector<float> losses;
  std::vector<float> norms;
  for (int64_t i = 0; i < expected.shape.elements(); ++i) {
    const ImageStep given = read_step(c, i, sizes, flow);
    const training::StepResult result = trainer.run(i, learning_rate, given.batch, given.draw);
    losses.push_back(static_cast<float>(result.loss));
    norms.push_back(static_cast<float>(result.gradient_norm));
    if (i == 0) {
      add_first_gradients(rows, c, name, limits, trainer, step.adamw, result.gradient_norm);
    }
  }
  for (const auto& [tensor, values] : {std::pair{"loss", &losses}, {"grad_norm", &norms}}) {
    rows.push_back(compare(name, tensor, HostArray::f32(expected.shape.dims, *values),
                           c.tensor(tensor), limits.of(tensor)));
  }
  const training::StateView state = trainer.state();
  const std::vector<nn::ParamSpec> trained = training::trained_of(masters);
  for (const auto& [prefix, buffers] :
       {std::pair{"param.", training::pointers_to<runtime::Array>(state.parts.trained)},
        {"mu.", training::pointers_to<runtime::Array>(state.parts.mu)},
        {"nu.", training::pointers_to<runtime::Array>(state.parts.nu)}}) {
    for (size_t i = 0; i < trained.size(); ++i) {
      for (const auto& [key, value] : unstack(trained[i], buffers[i]->to_host())) {
        if (const std::string tensor = prefix + key; c.has(tensor)) {
          rows.push_back(compare(name, tensor, value, c.tensor(tensor), limits.of(tensor)));
        }
      }
    }
  }
  if (c.has("loss_after")) {
    const ImageStep again = read_step(c, 0, sizes, flow);
    const training::StepResult after =
        trainer.run(expected.shape.elements(), /*learning_rate=*/0.0, again.batch, again.draw);
    const HostArray loss = HostArray::f32({}, std::vector{static_cast<float>(after.loss)});
    rows.push_back(
        compare(name, "loss_after", loss, c.tensor("loss_after"), limits.of("loss_after")));
  }
  return rows;
}

}  // namespace

std::vector<Row> image_train_rows(const Case& c, Session& session) {
  std::vector<Row> rows;
  for (const Session::Form& form : session.forms()) {
    std::ranges::move(rows_of(c, form, session), std::back_inserter(rows));
  }
  return rows;
}

}  // namespace kinema::verification
