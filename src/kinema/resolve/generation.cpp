#include "kinema/resolve/generation.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <span>
#include <utility>
#include <vector>

#include "kinema/config/keys.h"
#include "kinema/core/error.h"
#include "kinema/model_files/family.h"
#include "kinema/model_source/model_schedule.h"
#include "kinema/model_source/pictures.h"
#include "kinema/model_source/trained_model.h"
#include "kinema/resolve/animation.h"
#include "kinema/resolve/device.h"
#include "kinema/resolve/encoders.h"
#include "kinema/resolve/given_frames.h"
#include "kinema/resolve/load.h"
#include "kinema/resolve/prompts.h"
#include "kinema/resolve/redux.h"
#include "kinema/sample/scheduler_config.h"
#include "kinema/sample/solver_settings.h"

namespace kinema::resolve {
namespace {

/// noise_levels, sigmas and timesteps, where they are given. A zero at the end of sigmas, which
/// some lists of diffusers have, is dropped.
void set_levels(const config::GenerateConfig& g, schedulers::ScheduleConfig& out) {
  if (g.noise_levels.given) {
    out.levels.spread = schedulers::spread_from_string(g.noise_levels.value);
  }
  if (!g.sigmas.empty() || !g.timesteps.empty()) {
    if (!g.noise_levels.given) {
      out.levels.spread = schedulers::Spread::MODEL;  // replaces the file's
    }
    out.levels.sigmas = g.sigmas;
    if (!g.sigmas.empty() && g.sigmas.back() == 0.0) {
      out.levels.sigmas.pop_back();
    }
    check(!out.levels.sigmas.empty() || !g.timesteps.empty(),
          "[config] sigmas is [0], expected noise levels above 0");
    out.levels.timesteps = g.timesteps;
  }
}

/// The model's schedule with the configuration's overrides.
schedulers::ScheduleConfig schedule(const config::Loaded& loaded,
                                    const model_source::SelectedModel& model,
                                    const networks::Network& network, const Job& job) {
  const schedulers::ScheduleConfig usual = network->learned().sampled;
  schedulers::ScheduleConfig own = model.folder.schedule.value_or(usual);
  if (!model.step) {  // a run's checkpoint has its own objective
    own = model_source::with_marks(std::move(own), model.folder.transformer,
                                   model.folder.schedule.has_value());
  }
  const bool is_flow = schedulers::is_flow(own);
  const config::GenerateConfig& g = loaded.config.generate;
  schedulers::ScheduleConfig out = own;
  if (!is_flow) {
    if (const auto& given = loaded.config.optimizer.prediction_type; given.given) {
      out.diffusion.prediction_type = model_source::prediction(given);
    }
    out = with_scheduler_config(std::move(out), g);
    if (out.diffusion.prediction_type != own.diffusion.prediction_type) {
      job.notice(model_source::other_prediction(out.diffusion.prediction_type,
                                                own.diffusion.prediction_type));
    }
  }
  if (g.scheduler.given) {
    const schedulers::NamedSampler named =
        schedulers::sampler_from_string(g.scheduler.value, is_flow);
    check(
        named.spread == schedulers::Spread::MODEL || !g.noise_levels.given ||
            named.spread == schedulers::spread_from_string(g.noise_levels.value),
        "[config] scheduler is {}, with its own noise levels, and noise_levels is {}\n  give only "
        "one of them",
        g.scheduler.value, g.noise_levels.value);
    out = schedulers::with_sampler(std::move(out), named);
  }
  set_levels(g, out);
  schedulers::check_class(out);
  const std::vector<schedulers::Noise>& kinds = schedulers::info_of(out.sampler).kinds;
  check(std::ranges::find(kinds, schedulers::noise_of(out)) != kinds.end(),
        "[scheduler] {} is a sampler of {}, but this model was trained as {}\n  the model's own is "
        "{}",
        g.scheduler.value, is_flow ? "diffusions" : "rectified flows",
        is_flow ? "a rectified flow" : "a diffusion",
        own.unknown_class.empty() ? std::string(class_name(own)) : own.unknown_class);
  out.even_sigmas =
      usual.even_sigmas && (schedulers::is_flow_match(out.sampler) || out.dynamic_shift);
  if (g.flow_shift.given) {
    out.shift = g.flow_shift;
    out.dynamic_shift.reset();
  }
  return out;
}

/// An expert's guidance scale: its own key if given, else guidance_scale if given, else the default
/// of its own key.
double guidance_of(const config::Given<double>& own, const config::Given<double>& of_both) {
  return !own.given && of_both.given ? of_both : own;
}

/// The caches that steps share.
sample::ReuseSettings reuse_of(const config::GenerateConfig& g) {
  sample::ReuseSettings out;
  out.keys = g.use_kv_cache;
  out.sencache = g.use_sen_cache;
  if (g.use_cfg_cache) {
    out.guidance = sample::GuidanceCache{};
  }
  if (g.use_magcache) {
    const std::vector<double>& by_height =
        g.height >= 720 ? g.mag_ratios_base_720p : g.mag_ratios_base_480p;
    const std::vector<double>& table = g.mag_ratios_base.empty() ? by_height : g.mag_ratios_base;
    check(!table.empty(),
          "[generate] use_magcache needs the model's table: mag_ratios_base, two numbers per step\n"
          "  configs/wan21_t2v_14b.yml, wan22_t2v_a14b.yml and wan22_i2v_a14b.yml have those of "
          "their models");
    out.magcache = sample::MagCache{.ratios = table,
                                    .threshold = g.magcache_thresh,
                                    .longest_skip = g.magcache_K,
                                    .retention = g.retention_ratio};
  }
  return out;
}

/// A key's two numbers; nothing if the key is empty. Throws an Error that names the key otherwise.
std::optional<std::array<int64_t, 2>> pair_of(const std::vector<int64_t>& values,
                                              std::string_view key) {
  if (values.empty()) {
    return std::nullopt;
  }
  constexpr int64_t kMost = 1 << 20;
  check(
      values.size() == 2 &&
          std::ranges::all_of(values, [](int64_t value) { return value >= 0 && value <= kMost; }),
      "[config] {} is [{}], expected two numbers of pixels from 0 to {}, [height, width] or [top, "
      "left]",
      key, fmt::join(values, ", "), kMost);
  return std::array<int64_t, 2>{values[0], values[1]};
}

/// Fills the fields of image pipelines, and their defaults.
void ask_for_images(const config::Loaded& loaded, const model_files::ImageDefaults& defaults,
                    sample::GenerateRequest& request) {
  const config::GenerateConfig& g = loaded.config.generate;
  request.height = loaded.is_set("height") ? g.height : defaults.side;
  request.width = loaded.is_set("width") ? g.width : defaults.side;
  request.num_inference_steps =
      loaded.is_set("num_inference_steps") ? g.num_inference_steps : defaults.num_inference_steps;
  request.num_frames = 1;
  const bool images = on_command_line(loaded, "num_images_per_prompt");
  const bool videos = on_command_line(loaded, "num_videos_per_prompt");
  if (g.num_images_per_prompt.given && (images || !videos)) {
    check(!images || !videos || g.num_images_per_prompt.value == g.num_videos_per_prompt.value,
          "[generate] num_images_per_prompt is {}, num_videos_per_prompt {}: they are names of the "
          "same key\n"
          "  give only one of them",
          g.num_images_per_prompt.value, g.num_videos_per_prompt.value);
    request.num_videos_per_prompt = g.num_images_per_prompt;
  }
  if (g.prompt_2.given) {
    request.prompts_2.assign(request.prompts.size(), g.prompt_2.value);
  }
  constexpr std::array<int64_t, 2> kCorner{0, 0};
  request.picture_sizes = {
      .original = pair_of(g.original_size, "original_size"),
      .crop = pair_of(g.crops_coords_top_left, "crops_coords_top_left").value_or(kCorner),
      .target = pair_of(g.target_size, "target_size")};
  const auto original = pair_of(g.negative_original_size, "negative_original_size");
  const auto target = pair_of(g.negative_target_size, "negative_target_size");
  const auto crop = pair_of(g.negative_crops_coords_top_left, "negative_crops_coords_top_left");
  if (original && target) {
    request.negative_picture_sizes = {
        .original = original, .crop = crop.value_or(kCorner), .target = target};
  }
}

void turn_guidance_off(const networks::Sizes& network, sample::GenerateRequest& request) {
  request.true_cfg_scale = 1.0;
  if (!network.guidance_distilled) {  // else the scale is a network input
    request.guidance_scale = 1.0 - network.guidance_offset;
    request.guidance_scale_2 = 1.0;
  }
}

/// Where other programs count guidance or steps otherwise.
void note_other_countings(const config::Loaded& loaded, const networks::Network& network,
                          const std::optional<schedulers::ScheduleConfig>& schedule,
                          const sample::GenerateRequest& request, const Job& job) {
  if (network.sizes().guidance_offset == 0.0) {
    return;
  }
  const double factor = sample::classifier_free_scale(request, network.sizes());
  if (loaded.is_set("guidance_scale") && factor > 1.0) {
    job.notice(
        fmt::format("guidance_scale {:g} is that of diffusers, c + {:g} (c - u): {:g} in "
                    "programs with u + g (c - u), such as ComfyUI",
                    request.guidance_scale, request.guidance_scale, factor));
  }
  const model_files::ImageDefaults defaults = model_source::image_defaults(network, {}, schedule);
  if (defaults.num_inference_steps != defaults.distilled_steps) {
    return;
  }
  if (factor > 1.0) {
    job.notice("this model was distilled to run without guidance: guidance_scale=0");
  }
  if (request.num_inference_steps == defaults.distilled_steps + 1) {
    job.notice(fmt::format("{} steps are {} passes: the {} of the model's card are {} here",
                           request.num_inference_steps, request.num_inference_steps,
                           request.num_inference_steps, defaults.distilled_steps));
  }
}

}  // namespace

schedulers::ScheduleConfig with_scheduler_config(schedulers::ScheduleConfig out,
                                                 const config::GenerateConfig& g) {
  const io::Json given =
      io::Json::parse(g.diffusion_scheduler_config.json, "diffusion_scheduler_config");
  if (given.is_null()) {
    return out;
  }
  check(given.is_object(),
        "[config] diffusion_scheduler_config is {}, expected {{_class_name: ...}}",
        given.describe());
  for (const auto& [key, value] : given.members()) {
    if (value.is_null() || (value.is_string() && value.as_string().empty())) {
      continue;  // the model's value
    }
    if (key == "_class_name") {
      out = schedulers::with_sampler(
          std::move(out), schedulers::sampler_from_string(value.as_string(), /*flow=*/false));
    }
  }
  io::Json of_solver = io::Json::object();
  for (const auto& [key, value] : given.members()) {
    if (value.is_null() || (value.is_string() && value.as_string().empty()) ||
        key == "_class_name") {
      continue;
    }
    if (sample::has_solver_setting(out, key)) {
      of_solver.set(key, value);
    } else if (key == "prediction_type") {
      out.diffusion.prediction_type = schedulers::prediction_from_string(value.as_string());
    } else if (key == "rescale_zero_terminal_snr" || key == "rescale_betas_zero_snr") {
      out.diffusion.rescale_betas_zero_snr = value.as_bool();
    } else if (key == "timestep_spacing" && value.is_string() && value.as_string() == "ays") {
      out.levels.spread = schedulers::Spread::AYS;
    } else if (key == "timestep_spacing") {
      out.diffusion.timestep_spacing = schedulers::spacing_from_string(value.as_string());
    } else if (key == "clip_sample") {
      out.diffusion.clip_sample = value.as_bool();
    } else if (key == "set_alpha_to_one") {
      out.diffusion.set_alpha_to_one = value.as_bool();
    } else {
      fail(
          "[config] diffusion_scheduler_config has no `{}`: it has _class_name, prediction_type, "
          "rescale_betas_zero_snr (rescale_zero_terminal_snr), timestep_spacing, clip_sample, "
          "set_alpha_to_one, and the settings that {} has in diffusers",
          key, class_name(out));
    }
  }
  sample::read_solver_settings(of_solver, out);
  return out;
}

void set_guidance(const config::Loaded& loaded, const networks::Network& network,
                  bool has_two_experts, const std::optional<schedulers::ScheduleConfig>& schedule,
                  sample::GenerateRequest& request, std::string_view pipeline_class) {
  const config::GenerateConfig& g = loaded.config.generate;
  if (loaded.is_set("negative_prompt") || !g.negative_prompt.empty()) {
    request.negative_prompt = g.negative_prompt;
  }
  request.guidance_scale = g.guidance_scale;
  if (has_two_experts) {
    request.guidance_scale = guidance_of(g.guidance_scale_high, g.guidance_scale);
    request.guidance_scale_2 = guidance_of(g.guidance_scale_low, g.guidance_scale);
  }
  if (is_animate(network.sizes()) && (g.animate_guidance_scale.given || !g.guidance_scale.given)) {
    request.guidance_scale = g.animate_guidance_scale;
  }
  if (network.sizes().makes_images) {
    if (!loaded.is_set("guidance_scale")) {
      request.guidance_scale =
          model_source::image_defaults(network, pipeline_class, schedule).guidance_scale;
    }
    if (g.negative_prompt_2.given) {
      request.negative_prompt_2 = g.negative_prompt_2.value;
      request.negative_prompt = request.negative_prompt.value_or("");
    }
    request.true_cfg_scale = g.true_cfg_scale;
  }
  request.guidance_rescale = std::max(0.0, g.guidance_rescale);
  request.guidance_normalization = g.cfg_normalization;
  request.guidance_truncation = g.cfg_truncation;
  if (!g.do_classifier_free_guidance) {
    turn_guidance_off(network.sizes(), request);
  }
}

sample::GenerateRequest make_request(const config::Loaded& loaded,
                                     const model_source::SelectedModel& model,
                                     const networks::Network& network, const Job& job) {
  const config::GenerateConfig& g = loaded.config.generate;
  sample::GenerateRequest request{.noun = network.sizes().noun()};
  request.prompts = read_prompts(loaded);
  request.schedule = schedule(loaded, model, network, job);
  const auto known = request.schedule ? request.schedule : model.folder.schedule;
  set_guidance(loaded, network, model.folder.has_two_experts(), known, request,
               model.folder.class_name);
  request.num_videos_per_prompt = g.num_videos_per_prompt;
  request.first_index = g.first_video_index;
  request.num_frames = g.num_frames;
  request.height = g.height;
  request.width = g.width;
  request.num_inference_steps = g.num_inference_steps;
  request.seed = static_cast<uint64_t>(loaded.config.run.seed);
  request.batch_size = g.generate_batch_size;
  request.two_passes = g.guidance_in_two_passes;
  request.prompt_syntax = prompt_syntax(loaded.config);
  // States of prompts with weights are padded to those of the longest prompt.
  request.share.all_texts = loaded.config.model.use_batched_text_encoder ||
                            request.prompt_syntax != text::PromptSyntax::PLAIN;
  request.reuse = reuse_of(g);
  request.initial_latents = g.initial_latents;
  request.save_latents = g.save_latents;
  if (network.sizes().makes_images) {
    ask_for_images(loaded, model_source::image_defaults(network, model.folder.class_name, known),
                   request);
    note_other_countings(loaded, network, known, request, job);
  }
  if (is_animate(network.sizes())) {
    set_animate_defaults(loaded, job, request);
  }
  set_given_frames(loaded, network.sizes(), model.folder, job, request);
  check_sampler_steps(request.num_inference_steps,
                      request.schedule.value_or(network->learned().sampled));
  return request;
}

void check_sampler_steps(int64_t steps, const schedulers::ScheduleConfig& schedule) {
  check(
      steps >= 1 && steps <= schedule.num_train_timesteps,
      "[config] num_inference_steps is {}, expected 1 to {}, the timesteps of the model's schedule",
      steps, schedule.num_train_timesteps);
}

std::optional<int64_t> videos_per_batch(const config::Loaded& loaded, int64_t devices) {
  const bool asked = on_command_line(loaded, "per_device_batch_size") ||
                     on_command_line(loaded, "global_batch_size");
  if (!asked || loaded.config.generate.num_videos_per_prompt.given) {
    return std::nullopt;
  }
  return batch_sizes(loaded.config, devices).train;
}

std::optional<std::string> apply_batch(const config::Loaded& loaded, const mesh::Placement& place,
                                       sample::GenerateRequest& request) {
  const auto videos = videos_per_batch(loaded, place.devices());
  if (!videos) {
    return std::nullopt;
  }
  request.num_videos_per_prompt = *videos;
  if (!loaded.config.generate.generate_batch_size.given) {
    request.batch_size = *videos;
  }
  return fmt::format("{}s of each prompt: {} ({})", request.noun, *videos,
                     batch_origin(loaded.config, place));
}

GenerateSettings generate_settings(const config::Config& config) {
  return {.video_folder = config.generate.video_folder,
          .debug_sharding = config.parallel.debug_sharding};
}

DenoisingSettings denoising_settings(const config::Config& config) {
  const config::GenerateConfig& g = config.generate;
  return {.batch = g.generate_batch_size,
          .two_passes = g.guidance_in_two_passes,
          .caches_keys = g.use_kv_cache,
          .guess_mode = g.guess_mode};
}

VideoFormat video_format(const config::Config& config) {
  const config::GenerateConfig& g = config.generate;
  return {.num_frames = g.num_frames,
          .segment_frames = g.segment_frame_length,
          .height = g.height,
          .width = g.width};
}

sample::PipelineParts make_parts(const config::Config& config,
                                 const model_source::SelectedModel& model,
                                 const networks::Sizes& transformer, const pjrt::Client& client,
                                 const Job& job) {
  sample::PipelineParts parts;
  parts.autoencoder = make_autoencoder(config, {client, vae_placement(config, client)});
  parts.text_encoder = with_redux(config,
                                  make_text_encoder(config, text_widths(transformer), client, job,
                                                    TextUse::PROMPTS, model.text_adapters),
                                  transformer, client, job);
  if (transformer.image_dim > 0) {
    parts.image_encoder = make_image_encoder(config, model.folder, transformer.image_dim, client);
  }
  return parts;
}

sample::OutputOptions output_options(const config::Loaded& loaded,
                                     const model_source::SelectedModel& model, io::Json flags) {
  const config::GenerateConfig& g = loaded.config.generate;
  io::Json settings = given_settings(loaded);
  if (model.step) {  // a resumed run may have newer checkpoints
    settings.set("generate_checkpoint_step", *model.step);
  }
  return {.fps = static_cast<double>(g.fps),
          .enlarge = static_cast<int>(g.video_enlarge),
          .contact_sheet = g.contact_sheet,
          .contact_sheet_columns = g.contact_sheet_columns,
          .frames = g.save_frames,
          .image_format = g.image_format == "webp"   ? media::ImageFormat::WEBP
                          : g.image_format == "jpeg" ? media::ImageFormat::JPEG
                                                     : media::ImageFormat::PNG,
          .image_quality = static_cast<int>(g.image_quality),
          .version = KINEMA_VERSION,
          .settings = std::move(settings),
          .flags = std::move(flags)};
}

io::Json given_settings(const config::Loaded& loaded) {
  io::Json out = io::Json::object();
  for (const config::KeyValue& each : config::describe(loaded.config)) {
    if (each.field.of == config::Of::RUN && loaded.is_set(std::string(each.key))) {
      out.set(each.key, io::Json::parse(each.value, each.key));
    }
  }
  return out;
}

}  // namespace kinema::resolve
