// Whole pipelines: prompts, images and noise to latents after each step, and to frames.
#include <algorithm>
#include <array>
#include <cmath>
#include <memory>

#include "kinema/core/error.h"
#include "kinema/encoders/clip_encoder.h"
#include "kinema/encoders/control_video.h"
#include "kinema/encoders/flux_encoder.h"
#include "kinema/encoders/kl_autoencoder.h"
#include "kinema/encoders/qwen3_encoder.h"
#include "kinema/encoders/sd_encoder.h"
#include "kinema/encoders/sdxl_encoder.h"
#include "kinema/encoders/wan_autoencoder.h"
#include "kinema/sample/pipeline.h"
#include "kinema/verification/arrays.h"
#include "kinema/verification/kinds.h"
#include "kinema/verification/pipeline_request.h"

namespace kinema::verification {
namespace {

using io::Json;
using sample::PipelineFolder;

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
  if (is_zimage(folder)) {
    encoders::Qwen3Settings settings{.model = folder.text_encoder,
                                     .tokenizer = folder.tokenizer,
                                     .max_sequence_length = length(),
                                     .program = run.program()};
    settings.options.precision = run.options.precision;
    settings.options.scan_layers = run.options.scan_layers;
    return encoders::qwen3_text_encoder(run.session.client, std::move(settings));
  }
  if (folder.text_encoder_2.empty()) {
    const Json* skip = given(run.about("call"), "clip_skip");
    return encoders::sd_text_encoder(run.session.client,
                                     {.pipeline = folder.folder,
                                      .clip_skip = skip == nullptr ? 0 : skip->as_int(),
                                      .precision = run.options.precision,
                                      .scan_layers = run.options.scan_layers,
                                      .program = run.program()});
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

/// CLIP with the resize of the library that the reference used, PIL or torchvision: a case with
/// CLIP's tokens of its image shows which.
std::shared_ptr<const encoders::ImageEncoder> image_encoder_of(const Run& run,
                                                               const PipelineFolder& folder) {
  const auto with = [&](media::Rounding rounding) {
    return std::make_shared<encoders::ClipEncoder>(
        run.session.client, folder.image_encoder, folder.image_processor,
        encoders::ClipOptions{.program = run.program(), .rounding = rounding});
  };
  auto pil = with(media::Rounding::PIL);
  if (!run.has("image_embeds") || !run.has("image")) {
    return pil;
  }
  auto torch = with(media::Rounding::TORCH);
  const HostArray image = run.tensor("image");
  const HostArray wanted = convert(run.tensor("image_embeds"), DType::F32);
  const auto distance = [&](const encoders::ImageEncoder& encoder) {
    const HostArray tokens = encoder.encode(image);
    double out = 0;
    for (size_t i = 0; i < std::min(tokens.as<float>().size(), wanted.as<float>().size()); ++i) {
      out = std::max(out, std::abs(static_cast<double>(tokens.as<float>()[i]) -
                                   static_cast<double>(wanted.as<float>()[i])));
    }
    return out;
  };
  return pil->processor()(image).bytes == torch->processor()(image).bytes ||
                 distance(*pil) <= distance(*torch)
             ? pil
             : torch;
}

sample::PipelineParts parts_of(const Run& run, const PipelineFolder& folder) {
  sample::PipelineParts parts{.autoencoder = autoencoder_of(run, folder),
                              .text_encoder = text_encoder_of(run, folder)};
  if (!folder.image_encoder.empty()) {
    parts.image_encoder = image_encoder_of(run, folder);
  }
  return parts;
}

/// Flux's tokens, f32 [n, tokens, 4 z], of latents f32 [n, z, 1, h, w]: the channels of 2 x 2
/// cells.
HostArray tokens_of(const HostArray& latents) {
  const Dims& d = latents.shape.dims;
  const int64_t rows = d.at(3) / 2;
  const int64_t columns = d.at(4) / 2;
  HostArray out(Shape{DType::F32, {d[0], rows * columns, 4 * d[1]}});
  const auto from = latents.as<float>();
  const auto to = out.as<float>();
  for (int64_t i = 0; i < std::ssize(from); ++i) {
    const int64_t x = i % d[4];
    const int64_t y = i / d[4] % d[3];
    const int64_t plane = i / (d[4] * d[3]);  // n z + channel
    const int64_t token = plane / d[1] * rows * columns + y / 2 * columns + x / 2;
    to[token * 4 * d[1] + plane % d[1] * 4 + y % 2 * 2 + x % 2] = from[i];
  }
  return out;
}

/// The tokens of one image after those of another, f32 [1, s, c].
HostArray joined_tokens(std::span<const HostArray> parts) {
  HostArray out = parts.front();
  check(out.shape.dims[0] == 1 || parts.size() == 1,
        "[verify] cases with references are of one image");
  for (const HostArray& part : parts.subspan(1)) {
    out.bytes.insert(out.bytes.end(), part.bytes.begin(), part.bytes.end());
    out.shape.dims[1] += part.shape.dims[1];
  }
  return out;
}

/// The transformer's input at the first step.
HostArray first_model_input(const Run& run, const sample::DenoiseBatch& batch, float scale,
                            bool is_flux) {
  CaseGraph graph(run);
  networks::Inputs inputs{.latents = graph.input(batch.latents) * static_cast<double>(scale),
                          .timestep = {}};
  for (const auto& [step, value] : batch.inputs) {
    networks::put(step.input, graph.input(value), inputs);
  }
  graph.output("x", inputs.latents);
  if (inputs.reference) {
    graph.output("reference", inputs.reference);
  }
  Values values = graph.run();
  if (is_flux) {  // tokens of the latents, then those of the reference
    std::vector<HostArray> tokens;
    for (const auto& [name, value] : values) {
      tokens.push_back(tokens_of(value));
    }
    return joined_tokens(tokens);
  }
  return values.front().second;
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

/// Of a prompt's states without padding, `PREFIXN`: its own rows, and that the others are zero.
void add_own_rows(const Run& run, const std::string& prefix, const HostArray& states) {
  for (int64_t i = 0; !states.bytes.empty() && i < states.shape.dims[0]; ++i) {
    const std::string name = prefix + std::to_string(i);
    if (!run.has(name)) {
      continue;
    }
    HostArray own = part_of(states, i);
    const Shape expected = run.tensor(name).shape;
    const auto values = own.as<float>();
    const bool is_empty = std::ranges::all_of(values.subspan(static_cast<size_t>(std::min<int64_t>(
                                                  expected.elements(), std::ssize(values)))),
                                              [](float value) { return value == 0.0F; });
    check(is_empty, "[verify] the states of prompt {} have rows that are not its own", i);
    own.bytes.resize(std::min(own.bytes.size(), static_cast<size_t>(expected.bytes())));
    own.shape = expected;
    run.add(name, own);
  }
}

/// The text states of an image's prompts in the network's batch, and its first input.
void add_batch(const Run& run, const PipelineFolder& folder, const sample::DenoiseBatch& batch,
               const schedulers::Schedule& schedule) {
  const bool guided = !batch.negative_text.bytes.empty();
  if (!is_wan(folder)) {
    run.add_known("prompt_embeds", batch.text);
    run.add_known("pooled_prompt_embeds", batch.pooled);
    add_own_rows(run, "prompt_embeds.", batch.text);
    add_own_rows(run, "negative_prompt_embeds.", batch.negative_text);
    if (guided) {
      run.add_known("negative_prompt_embeds", batch.negative_text);
      run.add_known("negative_pooled_prompt_embeds", batch.negative_pooled);
    }
  }
  if (!batch.size_ids.bytes.empty()) {
    run.add_known("time_ids", guided ? joined(std::array{batch.negative_size_ids, batch.size_ids})
                                     : batch.size_ids);
  }
  if (run.has("first_model_input")) {
    const HostArray input =
        first_model_input(run, batch, schedule.steps.front().input, is_flux(folder));
    // Both halves of a guidance batch have the same latents.
    const bool twice =
        run.tensor("first_model_input").shape.elements() == 2 * input.shape.elements();
    run.add("first_model_input", twice ? joined(std::array{input, input}) : input);
  }
}

/// What a network whose time is 0 for noise gets at each step.
void add_times(const Run& run, const schedulers::Schedule& schedule) {
  std::vector<float> times;
  for (const float timestep : schedule.timesteps) {
    times.push_back((1000.0F - timestep) / 1000.0F);
  }
  run.add_known("t_given", numbers(times));
}

/// The levels of the whole schedule, of which a start from frames leaves out the first.
void add_levels(const Run& run, schedulers::ScheduleConfig config, int64_t steps, int64_t tokens) {
  config.first_step = 0;
  const schedulers::Schedule whole = schedulers::make_schedule(config, steps, tokens);
  run.add_known("timesteps", numbers(whole.timesteps));
  run.add_known("sigmas", numbers(whole.sigmas));
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

/// The first frames of f32 [f, ...].
HostArray first_frames(HostArray frames, int64_t count) {
  frames.bytes.resize(frames.bytes.size() / static_cast<size_t>(frames.shape.dims.at(0)) *
                      static_cast<size_t>(count));
  frames.shape.dims[0] = count;
  return frames;
}

/// The frames of a video's segments, whose latents are one after another: without those with which
/// a segment continues the one before.
HostArray frames_of_segments(const sample::GenerateRequest& request,
                             const encoders::Autoencoder& autoencoder, int64_t segments,
                             const sample::GeneratedVideo& video) {
  const Dims& d = video.latents.shape.dims;
  const int64_t each = d.at(1) / segments;
  const int64_t plane = d[2] * d[3];
  HostArray out;
  for (int64_t segment = 0; segment < segments; ++segment) {
    HostArray latents(Shape{DType::F32, {d[0], each, d[2], d[3]}});
    for (int64_t c = 0; c < d[0]; ++c) {
      std::copy_n(video.latents.as<float>().begin() + (c * d[1] + segment * each) * plane,
                  each * plane, latents.as<float>().begin() + c * each * plane);
    }
    const HostArray frames = frames_of_pixels(autoencoder.decode(latents));
    const int64_t known = segment == 0 ? 0 : request.files.animation.shared_frames;
    const int64_t count = frames.shape.dims[0];
    out.bytes.insert(out.bytes.end(),
                     frames.bytes.begin() + std::ssize(frames.bytes) / count * known,
                     frames.bytes.end());
    out.shape.dims = frames.shape.dims;
  }
  out.shape.dtype = DType::F32;
  out.shape.dims[0] = std::ssize(out.bytes) / (out.shape.bytes() / out.shape.dims[0]);
  return first_frames(std::move(out), video.frames.shape.dims.at(0));
}

/// The values with the case's axes: steps also by segment, tokens by image.
HostArray in_shape_of_case(const Run& run, const std::string& tensor, HostArray values) {
  if (run.has(tensor) && run.tensor(tensor).shape.elements() == values.shape.elements()) {
    values.shape.dims = run.tensor(tensor).shape.dims;
  }
  return values;
}

/// The inputs of a segment of Wan-Animate.
void add_segment(const Run& run, const sample::DenoiseBatch& batch, int64_t segment) {
  for (const auto& [step, value] : batch.inputs) {
    const std::string prefix = fmt::format("segment{}.", segment);
    switch (step.input.entry) {
      case networks::Entry::CHANNELS:
        run.add_known(prefix + "condition", value);
        break;
      case networks::Entry::POSES:
        run.add_known(prefix + "pose_latents", value);
        break;
      case networks::Entry::FACES:
        run.add_known(prefix + "face_pixels", value);
        break;
      default:
        break;
    }
  }
  if (segment == 0 && !batch.image.bytes.empty()) {
    run.add_known("image_embeds", in_shape_of_case(run, "image_embeds", batch.image));
  }
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
  const sample::GenerateRequest request = request_of(run.c, folder);
  // Flux's latents are tokens in the cases that are given pictures.
  const bool is_out = run.has("image_out");
  const bool packed = is_flux(folder) && is_out;
  const auto latents_of = [&](const runtime::Array& array) {
    return packed ? tokens_of(array.to_host()) : array.to_host();
  };
  sample::DenoiseBatch first;
  int64_t segments = 0;
  std::vector<HostArray> outputs;
  std::vector<HostArray> latents;
  std::vector<std::string> experts;
  const sample::Generated made = pipeline.generate(
      request, {.encoded =
                    [&](std::span<const sample::DenoiseBatch> batches, int64_t /*num_frames*/) {
                      first = segments == 0 ? batches.front() : first;
                      add_segment(run, batches.front(), segments++);
                    },
                .step =
                    [&](const sample::DenoiseStep& step) {
                      outputs.push_back(latents_of(step.model_output));
                      latents.push_back(latents_of(step.latents));
                      experts.push_back(step.expert);
                    }});
  const int64_t tokens = made.sizes.latents[2] * made.sizes.latents[3] / 4;  // of Flux
  add_batch(run, folder, first,
            schedulers::make_schedule(made.schedule, request.num_inference_steps, tokens));
  if (is_wan(folder) && given(run.c.about(), "model_per_step") != nullptr) {
    add_experts(run, experts);
  }
  for (const auto& [step, value] : first.inputs) {
    if (step.input.made_of == networks::MadeOf::CONTROL_VIDEO) {
      run.add_known("conditioning_latents", value);
    }
    if (step.input.entry == networks::Entry::BRANCH) {
      run.add_known("control", in_shape_of_case(run, "control", value));
    }
  }
  if (is_zimage(folder)) {
    add_times(run, schedulers::make_schedule(made.schedule, request.num_inference_steps, tokens));
    for (const char* key : {"", "negative_"}) {
      add_chat_ids(run, folder.tokenizer, key);
    }
  }
  add_levels(run, made.schedule, request.num_inference_steps, tokens);
  run.add_known("model_outputs", in_shape_of_case(run, "model_outputs", joined(outputs)));
  run.add_known("step_latents", in_shape_of_case(run, "step_latents", joined(latents)));
  std::vector<HostArray> last;
  std::vector<HostArray> frames;
  std::vector<HostArray> bytes;
  for (const sample::GeneratedVideo& each : made.videos) {
    last.push_back(each.latents);
    frames.push_back(segments > 1
                         ? frames_of_segments(request, *parts.autoencoder, segments, each)
                         : first_frames(frames_of_pixels(parts.autoencoder->decode(each.latents)),
                                        each.frames.shape.dims.at(0)));
    bytes.push_back(each.frames);
  }
  run.add_known("final_latents", joined(last));
  run.add_known(is_wan(folder) ? "frames" : is_out ? "image_out" : "image", joined(frames));
  run.add_known("png", joined(bytes));
}

HostArray with_axes(HostArray x, Dims dims) {
  x.shape.dims = std::move(dims);
  return x;
}

/// The condition of a control video of each of the case's `cases`, NAME: pixels of
/// `NAME.video`, `NAME.mask` and `NAME.reference_imagesN`, latents, and planes of the mask.
void make_control_videos(const Run& run) {
  const PipelineFolder folder = sample::read_pipeline_folder(run.path("model"));
  const std::shared_ptr<const encoders::Autoencoder> autoencoder = autoencoder_of(run, folder);
  const encoders::PictureSize most{.height = run.about("height").as_int(),
                                   .width = run.about("width").as_int()};
  for (const auto& [name, about] : run.about("cases").members()) {
    const std::string prefix = name + ".";
    const auto if_given = [&](const char* tensor) {
      return run.has(prefix + tensor) ? run.tensor(prefix + tensor) : HostArray();
    };
    encoders::ControlVideo given{
        .frames = if_given("video"), .mask = if_given("mask"), .references = {}};
    for (size_t i = 0; run.has(fmt::format("{}reference_images{}", prefix, i)); ++i) {
      given.references.push_back(run.tensor(fmt::format("{}reference_images{}", prefix, i)));
    }
    encoders::PictureSize size = most;
    if (!given.frames.bytes.empty()) {
      const Dims& d = given.frames.shape.dims;
      constexpr int64_t kUnit = 16;
      size = encoders::control_size({.height = d.at(1), .width = d.at(2)}, most, kUnit);
    }
    const encoders::PixelSizes sizes{
        .num_frames = about.at("frames").as_int(), .height = size.height, .width = size.width};
    const encoders::ControlPixels pixels = encoders::control_pixels(given, sizes);
    const auto& [frames, height, width] = sizes;
    run.add(prefix + "video_pixels", with_axes(pixels.frames, {1, 3, frames, height, width}));
    run.add(prefix + "mask_pixels", with_axes(pixels.mask, {1, 1, frames, height, width}));
    for (size_t i = 0; i < pixels.references.size(); ++i) {
      run.add(fmt::format("{}reference_pixels{}", prefix, i), pixels.references[i]);
    }
    const HostArray made = encoders::control_condition(given, sizes, *autoencoder);
    const Dims& d = made.shape.dims;
    const int64_t latents = 2 * autoencoder->layout().channels;
    const int64_t each = d[1] * d[2] * d[3];
    const auto values = made.as<float>();
    run.add(prefix + "latents",
            HostArray::f32({1, latents, d[1], d[2], d[3]}, values.first(latents * each)));
    run.add(prefix + "mask_planes",
            HostArray::f32({1, d[0] - latents, d[1], d[2], d[3]}, values.subspan(latents * each)));
  }
}

}  // namespace

std::vector<Kind> pipeline_kinds() {
  using enum Kind::Forms;
  return {
      {"pipeline_* flf2v_pipeline vace_pipeline_* animate_pipeline*",
       run_pipeline,
       ONE,
       {{"*prompt_embeds", kStates},
        {"timesteps", kExact},
        {"frames", {.absolute = 1e-3}},
        {"*", kThousandth}}},
      {"vace_conditions", make_control_videos, ONE},
      {"flux_pipeline* sdxl_pipeline*", run_pipeline, ONE, {{"time_ids", kExact}}},
      {"sdxl_img2img* sdxl_inpaint sdxl_inpaint_* sdxl_inpaint9 sdxl_inpaint9_full flux_img2img* "
       "flux_inpaint* flux_fill* flux_control flux_kontext* v2v_pipeline* sd15_pipeline* "
       "sd21_pipeline* "
       "sd15_img2img* sd15_inpaint* sd21_img2img* sd21_inpaint* sdxl_controlled*",
       run_pipeline,
       ONE,
       {{"time_ids", kExact}}},
      {"zimage_pipeline* zimage_img2img* zimage_inpaint zimage_controlled*",
       run_pipeline,
       ONE,
       {{"mask", kExact}, {"negative_mask", kExact}, {"negative_ids", kExact}}},
  };
}

}  // namespace kinema::verification
