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

std::vector<Row> rows_of(const Case& c, const Session::Form& form, Session& session) {
  const networks::Network network = networks::open(c.model());
  const networks::Sizes& sizes = network.sizes();
  const io::Json& optimizer = c.about().at("optimizer");
  const double learning_rate = optimizer.at("learning_rate").as_number();
  const Limits limits(c.about(), Limits::Which::LONGEST);
  const auto specs = network->parameters(form.options);
  const auto masters = training::state_specs(specs);
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
  training::Trainer trainer(
      session.client(), specs, training::network_model(network, form.options),
      shapes_of(read_step(c, 0, sizes, flow).batch), step,
      training::fresh_state(weights::load(c.model(), masters, session.client()), masters,
                            /*ema=*/false, session.client()),
      {.program = session.program_options()});

  const HostArray expected = c.tensor("loss");
  std::vector<float> losses;
  std::vector<float> norms;
  for (int64_t i = 0; i < expected.shape.elements(); ++i) {
    const ImageStep given = read_step(c, i, sizes, flow);
    const training::StepResult result = trainer.run(i, learning_rate, given.batch, given.draw);
    losses.push_back(static_cast<float>(result.loss));
    norms.push_back(static_cast<float>(result.gradient_norm));
  }
  std::vector<Row> rows;
  for (const auto& [tensor, values] : {std::pair{"loss", &losses}, {"grad_norm", &norms}}) {
    rows.push_back(compare(name, tensor, HostArray::f32(expected.shape.dims, *values),
                           c.tensor(tensor), limits.of(tensor)));
  }
  const training::StateView state = trainer.state();
  for (const auto& [prefix, buffers] :
       {std::pair{"param.", state.params()},
        {"mu.", training::pointers_to<runtime::Array>(state.parts.mu)},
        {"nu.", training::pointers_to<runtime::Array>(state.parts.nu)}}) {
    for (size_t i = 0; i < masters.size(); ++i) {
      for (const auto& [key, value] : unstack(masters[i], buffers[i]->to_host())) {
        if (const std::string tensor = prefix + key; c.has(tensor)) {
          rows.push_back(compare(name, tensor, value, c.tensor(tensor), limits.of(tensor)));
        }
      }
    }
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
