#include <algorithm>
#include <memory>
#include <string_view>

#include "kinema/core/error.h"
#include "kinema/encoders/flux_encoder.h"
#include "kinema/encoders/kl_autoencoder.h"
#include "kinema/encoders/sdxl_encoder.h"
#include "kinema/sample/pipeline.h"
#include "kinema/sample/scheduler_config.h"
#include "kinema/verification/compare.h"
#include "kinema/verification/limits.h"
#include "kinema/verification/session.h"

// Whole pipelines of images: prompts and noise to latents after each step, and a picture.
namespace kinema::verification {
namespace {

using io::Json;

const Json* given(const Json& call, std::string_view key) {
  const Json* value = call.find(key);
  return value == nullptr || value->is_null() ? nullptr : value;
}

std::vector<std::string> texts_of(const Json& value) {
  std::vector<std::string> out;
  for (const Json& each : value.is_array() ? value.items() : std::vector<Json>{value}) {
    out.push_back(each.as_string());
  }
  return out;
}

std::optional<std::array<int64_t, 2>> pair_of(const Json& call, std::string_view key) {
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

sample::GenerateRequest request_of(const Case& c, const sample::PipelineFolder& folder) {
  const Json& call = c.about().at("call");
  sample::GenerateRequest out;
  out.prompts = texts_of(call.at("prompt"));
  if (const Json* second = given(call, "prompt_2")) {
    out.prompts_2 = texts_of(*second);
    out.prompts_2.resize(out.prompts.size(), out.prompts_2.back());
  }
  if (const Json* negative = given(call, "negative_prompt")) {
    out.negative_prompt = texts_of(*negative).front();
  }
  if (const Json* negative = given(call, "negative_prompt_2")) {
    out.negative_prompt_2 = texts_of(*negative).front();
  }
  const auto number = [&](std::string_view key, double otherwise) {
    const Json* value = given(call, key);
    return value == nullptr ? otherwise : value->as_number();
  };
  if (const Json* images = given(call, "num_images_per_prompt")) {
    out.num_videos_per_prompt = images->as_int();
  }
  out.height = call.at("height").as_int();
  out.width = call.at("width").as_int();
  out.num_frames = 1;
  out.num_inference_steps = call.at("num_inference_steps").as_int();
  const bool flux = folder.class_name.starts_with("Flux");
  out.guidance_scale = number("guidance_scale", flux ? 3.5 : 5.0);
  out.guidance_rescale = number("guidance_rescale", 0.0);
  out.true_cfg_scale = number("true_cfg_scale", 1.0);
  out.picture_sizes = picture_sizes(call, "");
  if (given(call, "negative_original_size") && given(call, "negative_target_size")) {
    out.negative_picture_sizes = picture_sizes(call, "negative_");
  }
  out.batch_size = out.videos();
  out.initial_latents = c.folder() / "io" / (c.name() + ".safetensors");
  return out;
}

/// What the case says in place of the folder's scheduler: a configuration with its class.
std::optional<schedulers::ScheduleConfig> schedule_of(const Case& c,
                                                      const sample::PipelineFolder& folder) {
  const Json& config = c.about().at("scheduler");
  if (!config.is_object()) {
    return folder.schedule;
  }
  schedulers::ScheduleConfig out = sample::schedule_of(
      schedulers::sampler_from_string(config.at("class").as_string(), false), config);
  out.even_sigmas = folder.schedule && folder.schedule->even_sigmas;
  return out;
}

std::unique_ptr<encoders::TextEncoder> text_encoder(const Case& c,
                                                    const sample::PipelineFolder& folder,
                                                    Session& session) {
  const Precision precision = session.model_options().precision;
  const bool scan = session.options().scan_on;
  if (const Json* length = given(c.about().at("call"), "max_sequence_length")) {
    encoders::FluxTextSettings settings{.pipeline = folder.folder,
                                        .max_sequence_length = length->as_int(),
                                        .program = session.program_options()};
    settings.options.precision = precision;
    settings.options.scan_layers = scan;
    return encoders::flux_text_encoder(session.client(), std::move(settings));
  }
  return encoders::sdxl_text_encoder(session.client(), {.pipeline = folder.folder,
                                                        .precision = precision,
                                                        .scan_layers = scan,
                                                        .program = session.program_options()});
}

/// Steps one behind the other, [steps, b, c, h, w], of arrays [b, c, 1, h, w].
HostArray steps_of(const std::vector<HostArray>& each) {
  Shape shape = each.front().shape;
  shape.dims.erase(shape.dims.begin() + 2);
  shape.dims.insert(shape.dims.begin(), std::ssize(each));
  HostArray out(shape);
  auto to = out.bytes.begin();
  for (const HostArray& step : each) {
    to = std::ranges::copy(step.bytes, to).out;
  }
  return out;
}

/// Of several pictures, one behind the other: [b, ...].
HostArray joined(const std::vector<HostArray>& each) {
  Shape shape = each.front().shape;
  shape.dims.insert(shape.dims.begin(), std::ssize(each));
  HostArray out(shape);
  auto to = out.bytes.begin();
  for (const HostArray& one : each) {
    to = std::ranges::copy(one.bytes, to).out;
  }
  return out;
}

/// f32 [3, 1, h, w] in [-1, 1] -> [h, w, 3] in [0, 1].
HostArray picture_of(const HostArray& pixels) {
  const Dims& dims = pixels.shape.dims;
  HostArray out(Shape{DType::F32, {dims[2], dims[3], 3}});
  const auto from = pixels.as<float>();
  const size_t plane = from.size() / 3;
  for (size_t i = 0; i < from.size(); ++i) {
    out.as<float>()[i % plane * 3 + i / plane] = std::clamp(from[i] * 0.5F + 0.5F, 0.0F, 1.0F);
  }
  return out;
}

}  // namespace

std::vector<Row> image_pipeline_rows(const Case& c, Session& session) {
  const sample::PipelineFolder folder =
      sample::read_pipeline_folder(c.folder() / c.about().at("pipeline").as_string());
  const Limits limits(c.about(), Limits::Which::LONGEST);
  std::vector<Row> rows;
  const auto add = [&](const std::string& tensor, const HostArray& value) {
    if (c.has(tensor)) {
      rows.push_back(compare(c.name(), tensor, value, c.tensor(tensor), limits.of(tensor)));
    }
  };
  sample::PipelineParts parts{
      .autoencoder = std::make_shared<encoders::KlAutoencoder>(
          session.client(), folder.vae,
          encoders::KlAutoencoderOptions{.model = {.precision = session.model_options().precision},
                                         .program = session.program_options()}),
      .text_encoder = text_encoder(c, folder, session)};
  sample::Pipeline pipeline(session.client(), folder, parts,
                            {.model = session.model_options(),
                             .program = session.program_options(),
                             .programs = session.step_programs()});
  sample::GenerateRequest request = request_of(c, folder);
  request.schedule = schedule_of(c, folder);
  std::vector<HostArray> outputs;
  std::vector<HostArray> latents;
  std::vector<float> timesteps;
  const sample::Generated made = pipeline.generate(
      request, {.encoded =
                    [&](std::span<const sample::DenoiseBatch> batches, int64_t /*num_frames*/) {
                      const sample::DenoiseBatch& batch = batches.front();
                      add("prompt_embeds", batch.text);
                      add("pooled_prompt_embeds", batch.pooled);
                      if (!batch.negative_text.bytes.empty()) {
                        add("negative_prompt_embeds", batch.negative_text);
                        add("negative_pooled_prompt_embeds", batch.negative_pooled);
                      }
                    },
                .step =
                    [&](const sample::DenoiseStep& step) {
                      outputs.push_back(step.model_output.to_host());
                      latents.push_back(step.latents.to_host());
                      timesteps.push_back(step.timestep);
                    }});
  add("timesteps", HostArray::f32({std::ssize(timesteps)}, timesteps));
  add("model_outputs", steps_of(outputs));
  add("step_latents", steps_of(latents));
  std::vector<HostArray> last;
  std::vector<HostArray> pictures;
  std::vector<HostArray> bytes;
  for (const sample::GeneratedVideo& each : made.videos) {
    last.push_back(each.latents);
    pictures.push_back(picture_of(parts.autoencoder->decode(each.latents)));
    bytes.push_back(each.frames);
  }
  add("final_latents", joined(last));
  add("image", joined(pictures));
  add("png", joined(bytes));
  return rows;
}

}  // namespace kinema::verification
