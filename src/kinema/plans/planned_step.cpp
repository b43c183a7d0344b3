#include "kinema/plans/planned_step.h"

#include <fmt/format.h>

#include <algorithm>

#include "kinema/core/error.h"
#include "kinema/core/quantities.h"
#include "kinema/model_source/controlnets.h"
#include "kinema/model_source/lora.h"
#include "kinema/model_source/model_options.h"
#include "kinema/model_source/model_schedule.h"
#include "kinema/model_source/network.h"
#include "kinema/model_source/pictures.h"
#include "kinema/model_source/trained_model.h"
#include "kinema/model_source/trained_text.h"
#include "kinema/resolve/animation.h"
#include "kinema/resolve/device.h"
#include "kinema/resolve/encoders.h"
#include "kinema/resolve/generation.h"
#include "kinema/resolve/training_step.h"
#include "kinema/resolve/two_experts.h"
#include "kinema/runtime/client.h"
#include "kinema/sample/denoise_step.h"
#include "kinema/sample/sizes.h"
#include "kinema/training/flops.h"
#include "kinema/training/state.h"
#include "kinema/training/step.h"
#include "kinema/weights/weights.h"

namespace kinema::plans {
namespace {

std::string model_text(const networks::Sizes& model, std::span<const nn::ParamSpec> specs,
                       const nn::ModelOptions& options) {
  return fmt::format("{} parameters, {} layers of width {}, weights {}{}, activations {}",
                     count_text(training::network_parameters(specs)), model.num_layers, model.width,
                     to_string(options.weights_dtype),
                     options.weights_storage
                         ? fmt::format(" stored as {}", to_string(*options.weights_storage))
                         : "",
                     to_string(options.activations_dtype));
}

std::string inputs_text(const Dims& latents, const networks::Sizes& model) {
  return fmt::format("{} of {}, {} tokens", latents[0],
                     to_string(Dims(latents.begin() + 1, latents.end())), model.tokens(latents));
}

PlannedStep training(const resolve::Settings& loaded, const networks::Network& plain,
                     const Dims& sample, const mesh::Placement& asked,
                     const planning::Target& target, const Job& job) {
  const auto control = model_source::trained_control(loaded, plain, job);
  const networks::Network network =
      control ? control->network
              : model_source::with_text(plain, model_source::trained_text(loaded));
  const networks::Sizes& model = network.sizes();
  const model_source::Expert expert = model_source::trained_expert(loaded);
  resolve::TrainingStep what = resolve::training_step(
      loaded, network, expert, model_source::trained_adapters(loaded, network, expert, job), asked);
  what.step = training::for_platform(std::move(what.step), target.platform());
  Dims latents = sample;
  latents.insert(latents.begin(), what.batch);
  const int64_t text = resolve::text_tokens(loaded, model);
  training::BatchShapes shapes{
      .latents = {DType::F32, latents},
      .text = {model.text_is_ids ? DType::S32 : DType::F32, {what.batch, text, model.text_dim}}};
  if (const networks::NamedInput* input = model.stored_input();
      input != nullptr && !input->optional) {
    shapes.condition = Shape{DType::F32, sample::StepInput{.input = *input}.dims(latents)};
  }
  if (model.image_dim > 0) {
    shapes.image_states = Shape{DType::F32, {what.batch, model.image_tokens, model.image_dim}};
  }
  if (model.pooled_dim > 0) {
    shapes.pooled =
        Shape{model.pooled_is_ids ? DType::S32 : DType::F32, {what.batch, model.pooled_dim}};
  }
  if (model.size_ids > 0) {
    shapes.size_ids = Shape{DType::F32, {what.batch, model.size_ids}};
  }
  auto step = std::make_shared<training::StepGraph>(what.build(shapes));
  PlannedStep out;
  out.graph = step->graph.get();
  out.outputs = step->outputs;
  step->set_emit(out.program.emit);
  out.what = "training step";
  out.model = fmt::format("{}, state {}", model_text(model, what.specs, what.options),
                          what.step.state == training::StateDType::F32 ? "f32" : "as weights");
  if (!what.adapters.empty()) {
    out.model += fmt::format(", trained {}: {} parameters", what.adapters.front().text(),
                             count_text(training::trained_parameters(what.specs)));
  }
  if (const auto two = resolve::two_experts(loaded, network, expert)) {
    out.model += ", of two experts in turn";
    out.idle = training::idle_bytes(step->state, what.options.place, two->idle_on_host);
  }
  out.inputs = inputs_text(latents, model);
  out.remat = what.remat_policy;
  out.layout = asked.active() ? what.batch_text : counted(what.samples, "sample");
  constexpr double kTera = 1e12;
  out.model_flops =
      training::training_tflops(
          network, sample, text, static_cast<double>(what.batch),
          what.adapters.empty() ? training::Trained::NETWORK : training::Trained::ADAPTER) *
      kTera;
  out.owner = std::move(step);
  return out;
}

PlannedStep denoising(const resolve::Settings& loaded, const networks::Network& plain,
                      const Dims& sample, const mesh::Placement& asked, const Job& job) {
  const networks::Network network = model_source::with_controlnets(loaded, plain, job);
  const networks::Sizes& model = network.sizes();
  const resolve::DenoisingSettings settings = resolve::denoising_settings(loaded);
  sample::StepSpec spec{.network = network, .options = model_source::model_options(loaded)};
  spec.options.place = asked;
  model_source::plan_lora(loaded, network, spec.options, job);
  spec.latents = sample;
  spec.latents.insert(spec.latents.begin(),
                      resolve::videos_per_batch(loaded, asked.devices()).value_or(settings.batch));
  spec.text_length = resolve::text_tokens(loaded, model);
  sample::GenerateRequest request;
  resolve::set_guidance(loaded, plain, /*has_two_experts=*/false,
                        model_source::planned_schedule(loaded, plain), request);
  const bool guided = sample::classifier_free_scale(request, model) > 1.0;
  spec.guidance = !guided               ? sample::Guidance::NONE
                  : settings.two_passes ? sample::Guidance::TWO_PASSES
                                        : sample::Guidance::DOUBLED_BATCH;
  spec.rescale = guided && request.guidance_rescale > 0.0;
  spec.normalizes = request.guidance_normalization > 0.0;
  spec.guess_mode = settings.guess_mode || model.control_pools;
  spec.text_fills = !model.reads_padding && !guided;
  spec.keys = settings.caches_keys;
  spec.latents[2] += resolve::is_animate(model) ? 1 : 0;
  for (const networks::NamedInput& each : model.named) {
    if (!each.optional) {
      spec.inputs.push_back({.input = each});
    }
  }
  spec.image_tokens = model.image_dim > 0 ? model.image_tokens : 0;
  sample::lay_out_contexts(spec);
  sample::check_contexts(spec);
  std::shared_ptr<sample::StepGraph> step = sample::build_step(spec);
  PlannedStep out;
  out.graph = &step->graph;
  out.outputs = step->outputs;
  step->set_emit(out.program.emit);
  out.what = "denoising step";
  out.model = model_text(model, network->parameters(spec.options), spec.options);
  out.inputs = inputs_text(spec.latents, model) + (guided ? ", with guidance" : "");
  if (asked.active()) {
    out.layout = sample::contexts_text(spec, asked);
  }
  out.owner = std::move(step);
  return out;
}

}  // namespace

PlannedStep build_planned_step(const resolve::Settings& given, const planning::Target& target,
                               PlanMode mode, const Job& job) {
  const networks::Network network = model_source::planned_network(given);
  const resolve::Settings loaded =
      model_source::with_image_keys(given, model_source::picture_settings(network));
  const networks::Sizes& model = network.sizes();
  const resolve::VideoFormat video = resolve::video_format(loaded);
  const int64_t frames = resolve::is_animate(model) ? video.segment_frames : video.num_frames;
  const sample::VideoSizes sizes =
      sample::video_sizes(frames, video.height, video.width, resolve::latent_layout(loaded, model),
                          model.patch_size, model.max_positions);
  std::vector<mesh::Device> devices;
  for (int64_t id = 0; id < target.devices; ++id) {
    devices.push_back({.id = id, .slice = 0, .coordinates = target.grid_place(id)});
  }
  const mesh::Placement place = resolve::placement(loaded, devices);
  network->check_divides(place);
  PlannedStep out = mode == PlanMode::TRAIN
                        ? training(loaded, network, sizes.latents, place, target, job)
                        : denoising(loaded, network, sizes.latents, place, job);
  if (place.active()) {
    out.program.emit.mesh = place.mesh().axes;
  }
  out.place = place;
  const bool is_cpu = target.chip.family == planning::Family::CPU;
  if (is_cpu) {
    resolve::limit_cpu_isa(loaded);
  }
  out.target = {.platform = target.platform(), .chip = target.chip.kind};
  resolve::set_emit_options(loaded, is_cpu, out.program);
  return out;
}

}  // namespace kinema::plans
