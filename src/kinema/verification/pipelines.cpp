// Whole pipelines: prompts, images and noise to latents after each step, and to frames.
#include <algorithm>
#include <array>
#include <memory>
#include <optional>

#include "kinema/core/error.h"
#include "kinema/encoders/clip_encoder.h"
#include "kinema/encoders/flux_encoder.h"
#include "kinema/encoders/kl_autoencoder.h"
#include "kinema/encoders/sdxl_encoder.h"
#include "kinema/encoders/wan_autoencoder.h"
#include "kinema/sample/pipeline.h"
#include "kinema/sample/scheduler_config.h"
#include "kinema/schedulers/samplers.h"
#include "kinema/verification/arrays.h"
#include "kinema/verification/kinds.h"
#include "kinema/weights/family.h"

namespace kinema::verification {
namespace {

using io::Json;
using sample::PipelineFolder;
using schedulers::ScheduleConfig;

bool is_wan(const PipelineFolder& folder) { return folder.class_name.starts_with("Wan"); }
bool is_flux(const PipelineFolder& folder) { return folder.class_name.starts_with("Flux"); }

/// The case's folder, with the pipeline class of the case: TI2V works with or without an image.
PipelineFolder folder_of(const Case& c) {
  PipelineFolder folder =
      sample::read_pipeline_folder(c.folder() / c.about().at("pipeline").as_string());
  const std::string& name = c.about().at("class").as_string();
  check(weights::pipeline_class(name) != nullptr, "[verify] {} is `{}`, expected {}",
        c.about().at("class").where(), name, weights::pipeline_classes());
  folder.class_name = name;
  return folder;
}

/// The folder's schedule, or the case's override: a configuration with its class, or
/// `FlowMatchEulerDiscreteScheduler(shift=3)`.
std::optional<ScheduleConfig> schedule_of(const Case& c, const PipelineFolder& folder) {
  const Json& scheduler = c.about().at("scheduler");
  if (scheduler.is_object() && !is_wan(folder)) {
    ScheduleConfig out = sample::schedule_of(
        schedulers::sampler_from_string(scheduler.at("class").as_string(), false).sampler,
        scheduler);
    out.even_sigmas = folder.schedule && folder.schedule->even_sigmas;
    return out;
  }
  const std::string& text = scheduler.as_string();
  const size_t open = text.find('(');
  if (open == std::string::npos || !is_wan(folder)) {
    return folder.schedule;
  }
  ScheduleConfig config = folder.schedule.value_or(ScheduleConfig{});
  config.sampler = schedulers::sampler_from_string(text.substr(0, open)).sampler;
  constexpr std::string_view kShift = "shift=";
  if (const size_t at = text.find(kShift); at != std::string::npos) {
    config.shift = std::stod(text.substr(at + kShift.size()));
  }
  return config;
}

std::optional<std::array<int64_t, 2>> pair_of(const Json& call, const std::string& key) {
  const Json* value = given(call, key);
  if (value == nullptr) {
    return std::nullopt;
  }
  const std::vector<int64_t> both = value->as_ints();
  check(both.size() == 2, "[verify] {} is not two numbers", value->where());
  return std::array<int64_t, 2>{both[0], both[1]};
}

data::PictureSizes picture_sizes(const Json& call, const std::string& prefix) {
  data::PictureSizes out{.original = pair_of(call, prefix + "original_size"),
                         .target = pair_of(call, prefix + "target_size")};
  out.crop = pair_of(call, prefix + "crops_coords_top_left").value_or(out.crop);
  return out;
}

/// A text; for image pipelines also each text of a list.
std::vector<std::string> texts_of(const Json& value, const PipelineFolder& folder) {
  if (is_wan(folder) || !value.is_array()) {
    return {value.as_string()};
  }
  check(!value.items().empty(), "[verify] {} is an empty list", value.where());
  return strings(value);
}

/// The arguments of the call, for image pipelines and for Wan's.
sample::GenerateRequest request_of(const Case& c, const PipelineFolder& folder) {
  const Json& call = c.about().at("call");
  const auto texts = [&](const char* key) {
    const Json* value = given(call, key);
    return value == nullptr ? std::vector<std::string>() : texts_of(*value, folder);
  };
  const auto number = [&](const char* key, double otherwise) {
    const Json* value = given(call, key);
    return value == nullptr ? otherwise : value->as_number();
  };
  sample::GenerateRequest out;
  out.prompts = texts_of(call.at("prompt"), folder);
  out.prompts_2 = texts("prompt_2");
  if (!out.prompts_2.empty()) {
    out.prompts_2.resize(out.prompts.size(), out.prompts_2.back());
  }
  for (const auto& [key, to] : {std::pair{"negative_prompt", &out.negative_prompt},
                                {"negative_prompt_2", &out.negative_prompt_2}}) {
    if (const std::vector<std::string> negative = texts(key); !negative.empty()) {
      *to = negative.front();
    }
  }
  // In cases of image networks, `image` is the result.
  for (const auto& [name, image] :
       {std::pair{"image", &out.images.first}, {"last_image", &out.images.last}}) {
    if (is_wan(folder) && c.has(name)) {
      *image = c.tensor(name);
    }
  }
  if (const Json* images = given(call, "num_images_per_prompt")) {
    out.num_videos_per_prompt = images->as_int();
  }
  out.num_frames = is_wan(folder) ? call.at("num_frames").as_int() : 1;
  out.height = call.at("height").as_int();
  out.width = call.at("width").as_int();
  out.num_inference_steps = call.at("num_inference_steps").as_int();
  out.guidance_scale = is_wan(folder) ? call.at("guidance_scale").as_number()
                                      : number("guidance_scale", is_flux(folder) ? 3.5 : 5.0);
  if (const Json* second = given(call, "guidance_scale_2")) {
    out.guidance_scale_2 = second->as_number();
  }
  out.guidance_rescale = number("guidance_rescale", 0.0);
  out.true_cfg_scale = number("true_cfg_scale", 1.0);
  out.picture_sizes = picture_sizes(call, "");
  if (given(call, "negative_original_size") && given(call, "negative_target_size")) {
    out.negative_picture_sizes = picture_sizes(call, "negative_");
  }
  out.batch_size = out.videos();
  out.schedule = schedule_of(c, folder);
  out.initial_latents = c.folder() / "io" / (c.name() + ".safetensors");
  return out;
}

std::shared_ptr<const encoders::TextEncoder> text_encoder_of(const Run& run,
                                                             const PipelineFolder& folder) {
  const auto length = [&] { return run.about("call").at("max_sequence_length").as_int(); };
  if (is_wan(folder)) {
    return wan_text_encoder(run, folder.folder, length());
  }
  if (is_flux(folder)) {
    encoders::FluxTextSettings settings{
        .pipeline = folder.folder, .max_sequence_length = length(), .program = run.program()};
    settings.options.precision = run.options.precision;
    settings.options.scan_layers = run.options.scan_layers;
    return encoders::flux_text_encoder(run.session.client, std::move(settings));
  }
  return encoders::sdxl_text_encoder(run.session.client, {.pipeline = folder.folder,
                                                          .precision = run.options.precision,
                                                          .scan_layers = run.options.scan_layers,
                                                          .program = run.program()});
}

std::shared_ptr<const encoders::Autoencoder> autoencoder_of(const Run& run,
                                                            const PipelineFolder& folder) {
  const std::string key = "vae " + folder.vae.string();
  return run.session.shared(key, [&]() -> std::shared_ptr<const encoders::Autoencoder> {
    if (is_wan(folder)) {
      const encoders::WanAutoencoderOptions options{.model = {.precision = run.options.precision},
                                                    .program = run.program()};
      return std::make_shared<encoders::WanAutoencoder>(run.session.client, folder.vae, options);
    }
    const encoders::KlAutoencoderOptions options{.model = {.precision = run.options.precision},
                                                 .program = run.program()};
    return std::make_shared<encoders::KlAutoencoder>(run.session.client, folder.vae, options);
  });
}

sample::PipelineParts parts_of(const Run& run, const PipelineFolder& folder) {
  sample::PipelineParts parts{.autoencoder = autoencoder_of(run, folder),
                              .text_encoder = text_encoder_of(run, folder)};
  if (!folder.image_encoder.empty()) {
    parts.image_encoder = std::make_shared<encoders::ClipEncoder>(
        run.session.client, folder.image_encoder, folder.image_processor,
        encoders::ClipOptions{.program = run.program()});
  }
  return parts;
}

/// The transformer's input at the first step.
HostArray first_model_input(const Run& run, const sample::DenoiseBatch& batch) {
  CaseGraph graph(run);
  const Tensor x = graph.input(batch.latents);
  const Tensor condition = batch.condition.bytes.empty() ? Tensor() : graph.input(batch.condition);
  graph.output("x", sample::model_input(x, condition, batch.condition_kind));
  return graph.run().front().second;
}

/// The text states of a video's prompts, directly from the encoder: without guidance the batch has
/// no negative prompt. A prompt that the case lacks is empty text.
void add_prompts(const Run& run, const encoders::TextEncoder& encoder) {
  for (const std::string key : {"prompt", "negative_prompt"}) {
    if (run.has(key + "_embeds")) {
      const Json* prompt = given(run.about("call"), key);
      const std::string text = prompt == nullptr ? "" : prompt->as_string();
      run.add(key + "_embeds", encoder.encode(std::span(&text, 1)).states);
    }
  }
}

/// The text states of an image's prompts in the network's batch, and its first input.
void add_batch(const Run& run, const PipelineFolder& folder, const sample::DenoiseBatch& batch) {
  if (!is_wan(folder)) {
    run.add_known("prompt_embeds", batch.text);
    run.add_known("pooled_prompt_embeds", batch.pooled);
    if (!batch.negative_text.bytes.empty()) {
      run.add_known("negative_prompt_embeds", batch.negative_text);
      run.add_known("negative_pooled_prompt_embeds", batch.negative_pooled);
    }
  }
  if (run.has("first_model_input")) {
    run.add("first_model_input", first_model_input(run, batch));
  }
}

/// The number of steps with another expert than in the reference.
void add_experts(const Run& run, const std::vector<std::string>& experts) {
  Row row{.tensor = "model_per_step"};
  const std::vector<std::string> expected = strings(run.about("model_per_step"));
  for (size_t i = 0; i < std::max(expected.size(), experts.size()); ++i) {
    const bool same = i < expected.size() && i < experts.size() && expected[i] == experts[i];
    row.max_diff += same ? 0.0 : 1.0;
  }
  row.ok = row.max_diff == 0.0;
  run.add(row);
}

/// Pixels f32 [3, f, h, w] in [-1, 1] as frames f32 [f, h, w, 3] in [0, 1].
HostArray frames_of_pixels(const HostArray& pixels) {
  const Dims& dims = pixels.shape.dims;
  HostArray out(Shape{DType::F32, {dims.at(1), dims.at(2), dims.at(3), 3}});
  const auto from = pixels.as<float>();
  const size_t plane = from.size() / 3;
  for (size_t i = 0; i < from.size(); ++i) {
    out.as<float>()[i % plane * 3 + i / plane] = std::clamp(from[i] * 0.5F + 0.5F, 0.0F, 1.0F);
  }
  return out;
}

void run_pipeline(const Run& run) {
  const PipelineFolder folder = folder_of(run.c);
  const sample::PipelineParts parts = parts_of(run, folder);
  if (is_wan(folder)) {
    add_prompts(run, *parts.text_encoder);
  }
  sample::Pipeline pipeline(
      run.session.client, folder, parts,
      {.model = run.options, .program = run.program(), .programs = run.session.step_programs});
  std::vector<HostArray> outputs;
  std::vector<HostArray> latents;
  std::vector<float> timesteps;
  std::vector<std::string> experts;
  const sample::Generated made = pipeline.generate(
      request_of(run.c, folder),
      {.encoded = [&](std::span<const sample::DenoiseBatch> batches,
                      int64_t /*num_frames*/) { add_batch(run, folder, batches.front()); },
       .step =
           [&](const sample::DenoiseStep& step) {
             outputs.push_back(step.model_output.to_host());
             latents.push_back(step.latents.to_host());
             timesteps.push_back(step.timestep);
             experts.push_back(step.expert);
           }});
  if (is_wan(folder)) {
    add_experts(run, experts);
  }
  run.add_known("timesteps", numbers(timesteps));
  run.add_known("model_outputs", joined(outputs));
  run.add_known("step_latents", joined(latents));
  std::vector<HostArray> last;
  std::vector<HostArray> frames;
  std::vector<HostArray> bytes;
  for (const sample::GeneratedVideo& each : made.videos) {
    last.push_back(each.latents);
    frames.push_back(frames_of_pixels(parts.autoencoder->decode(each.latents)));
    bytes.push_back(each.frames);
  }
  run.add_known("final_latents", joined(last));
  run.add_known(is_wan(folder) ? "frames" : "image", joined(frames));
  run.add_known("png", joined(bytes));
}

}  // namespace

std::vector<Kind> pipeline_kinds() {
  using enum Kind::Forms;
  return {
      {"pipeline_*",
       run_pipeline,
       ONE,
       {{"*prompt_embeds", kStates},
        {"timesteps", kExact},
        {"frames", {.absolute = 1e-3}},
        {"*", kThousandth}}},
      {"flux_pipeline* sdxl_pipeline*", run_pipeline},
  };
}

}  // namespace kinema::verification
