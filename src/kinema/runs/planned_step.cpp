#include "kinema/runs/planned_step.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "kinema/core/error.h"
#include "kinema/core/quantities.h"
#include "kinema/runs/device.h"
#include "kinema/runs/generation.h"
#include "kinema/runs/lora.h"
#include "kinema/runs/trained_model.h"
#include "kinema/runs/training_step.h"
#include "kinema/runs/wiring.h"
#include "kinema/runtime/client.h"
#include "kinema/sample/denoise_step.h"
#include "kinema/sample/sizes.h"
#include "kinema/training/flops.h"
#include "kinema/training/step.h"
#include "kinema/weights/weights.h"

namespace kinema::runs {
namespace {

namespace fs = std::filesystem;

/// Sizes of the models under the organisation Wan-AI, by what their names contain.
wan::TransformerConfig official_model(const std::string& name) {
  const auto has = [&](std::string_view part) { return name.find(part) != std::string::npos; };
  wan::TransformerConfig out;
  if (has("1.3B")) {
    return out;
  }
  check(has("Wan2.1-") || has("Wan2.2-"),
        "[plan] the model `{}` is not here, and its sizes are not known\n"
        "  give a folder with its config.json, or num_layers=..., ffn_dim=... without a name",
        name);
  if (has("5B")) {
    out.num_attention_heads = 24;
    out.ffn_dim = 14336;
    out.num_layers = 30;
    out.in_channels = out.out_channels = 48;
    return out;
  }
  out.num_attention_heads = 40;
  out.ffn_dim = 13824;
  out.num_layers = 40;
  if (has("I2V")) {
    out.in_channels = 36;
    if (has("Wan2.1-")) {
      out.image_dim = 1280;
      out.added_kv_proj_dim = 5120;
    }
  }
  return out;
}

/// The keys that were given, over a known model's sizes.
void apply_given(const config::Loaded& loaded, wan::TransformerConfig& out) {
  const config::ModelConfig& m = loaded.config.model;
  const auto take = [&](const char* key, int64_t& to, int64_t value) {
    if (loaded.origin.contains(key)) {
      to = value;
    }
  };
  take("num_layers", out.num_layers, m.num_layers);
  take("ffn_dim", out.ffn_dim, m.ffn_dim);
  take("num_attention_heads", out.num_attention_heads, m.num_attention_heads);
  take("in_channels", out.in_channels, m.in_channels);
  take("out_channels", out.out_channels, m.out_channels);
}

int64_t parameter_count(std::span<const nn::ParamSpec> specs) {
  int64_t sum = 0;
  for (const nn::ParamSpec& spec : specs) {
    sum += spec.shape.elements();
  }
  return sum;
}

std::string model_text(const wan::TransformerConfig& model, std::span<const nn::ParamSpec> specs,
                       const wan::ModelOptions& options) {
  return fmt::format("{} parameters, {} layers of width {}, weights {}, activations {}",
                     count_text(parameter_count(specs)), model.num_layers, model.dim(),
                     to_string(options.weights_dtype), to_string(options.activations_dtype));
}

encoders::LatentLayout layout(const config::Loaded& loaded, const wan::TransformerConfig& model) {
  if (loaded.config.model.autoencoder == config::Autoencoder::SPACE_TO_DEPTH) {
    const data::SpaceToDepth blocks = space_to_depth(loaded.config);
    return {.channels = model.out_channels,
            .spatial = blocks.side(),
            .temporal = blocks.frames(),
            .first_frame_alone = false};
  }
  constexpr int64_t kTi2vChannels = 48;  // Wan 2.2's VAE for TI2V has cells of twice the side
  return {.channels = model.out_channels, .spatial = model.out_channels == kTi2vChannels ? 16 : 8};
}

std::string inputs_text(const Dims& latents, const wan::TransformerConfig& model) {
  int64_t tokens = 1;
  for (size_t i = 0; i < 3; ++i) {
    tokens *= latents[i + 2] / model.patch_size[i];
  }
  return fmt::format("{} of {}, {} tokens", latents[0],
                     to_string(Dims(latents.begin() + 1, latents.end())), tokens);
}

PlannedStep training(const config::Loaded& loaded, const wan::TransformerConfig& model,
                     const Dims& sample, const mesh::Placement& asked) {
  const config::Config& config = loaded.config;
  const TrainingStep what = training_step(config, model, trained_expert(loaded), asked);
  Dims latents = sample;
  latents.insert(latents.begin(), what.batch);
  const int64_t text = config.model.max_sequence_length;
  training::BatchShapes shapes{.latents = {DType::F32, latents},
                               .text = {DType::F32, {what.batch, text, model.text_dim}}};
  if (model.condition_channels() > 0) {
    Dims condition = latents;
    condition[1] = model.condition_channels();
    shapes.condition = Shape{DType::F32, condition};
  }
  if (model.image_dim > 0) {
    shapes.image_states = Shape{DType::F32, {what.batch, kClipTokens, model.image_dim}};
  }
  auto step = std::make_shared<training::StepGraph>(what.build(shapes));
  PlannedStep out;
  out.graph = step->graph.get();
  out.outputs = step->outputs;
  out.emit.donate = step->donate;
  out.emit.output_shardings = step->output_shardings;
  out.what = "training step";
  out.model = fmt::format("{}, state {}", model_text(model, what.specs, what.options),
                          what.step.state == training::StateDType::F32 ? "f32" : "as weights");
  out.inputs = inputs_text(latents, model);
  if (asked.active()) {
    out.layout = what.batch_text;
  }
  constexpr double kTera = 1e12;
  out.model_flops =
      training::training_tflops(model, sample, text, static_cast<double>(what.batch)) * kTera;
  out.owner = std::move(step);
  return out;
}

PlannedStep denoising(const config::Loaded& loaded, const wan::TransformerConfig& model,
                      const Dims& sample, const mesh::Placement& asked, const Job& job) {
  const config::GenerateConfig& g = loaded.config.generate;
  sample::StepSpec spec{.model = model, .options = model_options(loaded.config)};
  spec.options.place = asked;
  plan_lora(loaded.config, model, spec.options, job);
  spec.latents = sample;
  spec.latents.insert(spec.latents.begin(),
                      videos_of_batch(loaded, asked.devices()).value_or(g.generate_batch_size));
  spec.text_length = loaded.config.model.max_sequence_length;
  const bool guided = g.guidance_scale > 1.0;
  spec.guidance = !guided                    ? sample::Guidance::NONE
                  : g.guidance_in_two_passes ? sample::Guidance::TWO_PASSES
                                             : sample::Guidance::DOUBLED_BATCH;
  spec.rescale = guided && g.guidance_rescale > 0.0;
  spec.keys = g.use_kv_cache;
  if (model.in_channels != model.out_channels) {
    spec.condition = sample::Condition::CHANNELS;
    spec.image_tokens = model.image_dim > 0 ? kClipTokens : 0;
  }
  sample::lay_out_contexts(spec);
  sample::check_contexts(spec);
  std::shared_ptr<sample::StepGraph> step = sample::build_step(spec);
  PlannedStep out;
  out.graph = &step->graph;
  out.outputs = step->outputs;
  out.emit.donate = step->donate;
  out.emit.output_shardings = step->output_shardings;
  out.what = "denoising step";
  out.model = model_text(model, wan::parameters(model, spec.options), spec.options);
  out.inputs = inputs_text(spec.latents, model) + (guided ? ", with guidance" : "");
  if (asked.active()) {
    out.layout = sample::contexts_text(spec, asked);
  }
  out.owner = std::move(step);
  return out;
}

}  // namespace

wan::TransformerConfig planned_model(const config::Loaded& loaded) {
  const config::ModelConfig& m = loaded.config.model;
  const std::string& own = m.wan_transformer_pretrained_model_name_or_path;
  const std::string& name = own.empty() ? m.pretrained_model_name_or_path : own;
  if (name.empty()) {
    return scratch_config(loaded);
  }
  std::error_code ignored;
  if (fs::exists(name, ignored)) {
    return weights::read_config(pretrained_transformer(loaded.config));
  }
  wan::TransformerConfig out = official_model(name);
  apply_given(loaded, out);
  wan::validate(out);
  return out;
}

PlannedStep build_planned_step(const config::Loaded& given, const planning::Target& target,
                               PlanMode mode, const Job& job) {
  config::Loaded loaded = given;
  if (target.chip.family == planning::Family::TPU) {
    loaded.config.run.hardware =
        config::Hardware::TPU;  // attention's block sizes are checked for it
  }
  const wan::TransformerConfig model = planned_model(loaded);
  const config::GenerateConfig& g = loaded.config.generate;
  const sample::VideoSizes sizes =
      sample::video_sizes(g.num_frames, g.height, g.width, layout(loaded, model), model.patch_size,
                          model.rope_max_seq_len);
  std::vector<mesh::Device> devices;
  for (int64_t id = 0; id < target.devices; ++id) {
    devices.push_back({.id = id, .slice = 0, .coordinates = target.grid_place(id)});
  }
  const mesh::Placement place = placement(loaded.config, devices);
  wan::check_divides(model, place);
  PlannedStep out = mode == PlanMode::TRAIN ? training(loaded, model, sizes.latents, place)
                                            : denoising(loaded, model, sizes.latents, place, job);
  if (place.active()) {
    out.emit.mesh = place.mesh().axes;
  }
  out.place = place;
  out.emit.for_accelerator(target.chip.family != planning::Family::CPU);
  if (target.chip.family == planning::Family::CPU) {
    runtime::limit_cpu_isa(loaded.config.run.cpu_isa);
  }
  out.kernels = kernels::for_target(
      {.platform = target.platform(), .chip = target.chip.kind, .mesh = out.emit.mesh},
      {.use = loaded.config.run.cpu_kernels});
  out.emit.lowering = out.kernels.lowering;
  return out;
}

}  // namespace kinema::runs
