#include "kinema/verification/pipeline_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>

#include "kinema/core/error.h"
#include "kinema/model_files/checkpoint.h"
#include "kinema/model_files/family.h"
#include "kinema/sample/scheduler_config.h"
#include "kinema/schedulers/samplers.h"

namespace kinema::verification {

using io::Json;
using sample::PipelineFolder;
using schedulers::ScheduleConfig;

bool is_wan(const PipelineFolder& folder) { return folder.class_name.starts_with("Wan"); }
bool is_zimage(const PipelineFolder& folder) { return folder.class_name.starts_with("ZImage"); }
bool is_flux(const PipelineFolder& folder) { return folder.class_name.starts_with("Flux"); }

PipelineFolder folder_of(const Case& c) {
  PipelineFolder folder =
      sample::read_pipeline_folder(c.folder() / c.about().at("pipeline").as_string());
  const std::string& name = c.about().at("class").as_string();
  if (const Json* controlnets = given(c.about(), "controlnet")) {
    for (const std::string& each : controlnets->is_string()
                                       ? std::vector<std::string>{controlnets->as_string()}
                                       : strings(*controlnets)) {
      if (model_files::is_control_module(model_files::Checkpoint::open(c.folder() / each))) {
        folder.transformer = model_files::laid_over(folder.transformer, c.folder() / each);
      } else {
        folder.controlnets.push_back({.path = c.folder() / each});
      }
    }
  }
  check(model_files::pipeline_class(name) != nullptr, "[verify] {} is `{}`, expected {}",
        c.about().at("class").where(), name, model_files::pipeline_classes());
  folder.class_name = name;
  return folder;
}

namespace {

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

/// The frames, mask and strength of image to image, inpainting and video to video; only such cases
/// have a strength or a mask.
sample::StartFrames start_of(const Case& c, const Json& call) {
  const Json* strength = given(call, "strength");
  if (strength == nullptr && !c.has("mask_image")) {
    return {};
  }
  sample::StartFrames out{.frames = c.tensor(c.has("video") ? "video" : "image"),
                          .strength = strength == nullptr ? 1.0 : strength->as_number(),
                          .returns_kept = false};
  if (out.frames.shape.rank() == 3) {
    out.frames.shape.dims.insert(out.frames.shape.dims.begin(), 1);
  }
  if (c.has("mask_image")) {
    out.mask = c.tensor("mask_image");
  }
  return out;
}

/// The control video, its masks, reference images and scales.
void add_control_video(const Case& c, sample::GivenFiles& out) {
  if (c.has("video")) {
    out.control_video = c.tensor("video");
  }
  if (c.has("mask")) {
    out.control_mask = c.tensor("mask");
  }
  for (int64_t i = 0; c.has(fmt::format("reference_image{}", i)); ++i) {
    out.references.push_back(c.tensor(fmt::format("reference_image{}", i)));
  }
  if (c.has("conditioning_scale")) {
    const HostArray scale = convert(c.tensor("conditioning_scale"), DType::F64);
    const auto values = scale.as<double>();
    out.control_scale.assign(values.begin(), values.end());
  }
}

/// The poses, faces, background and masks of Wan-Animate.
void add_animation(const Case& c, const Json& call, sample::Animation& out) {
  for (const auto& [name, video] : {std::pair{"pose_video", &out.poses},
                                    {"face_video", &out.faces},
                                    {"background_video", &out.background},
                                    {"mask_video", &out.mask}}) {
    if (c.has(name)) {
      *video = c.tensor(name);
    }
  }
  for (const auto& [key, count] : {std::pair{"segment_frame_length", &out.segment_frames},
                                   {"prev_segment_conditioning_frames", &out.shared_frames}}) {
    if (const Json* value = given(call, key)) {
      *count = value->as_int();
    }
  }
}

/// The pictures `control_imageN` of ControlNets, with a number for all or one for each.
void add_control_pictures(const Case& c, const Json& call, sample::GivenFiles& out) {
  for (size_t i = 0; c.has(fmt::format("control_image{}", i)); ++i) {
    out.control_pictures.push_back(c.tensor(fmt::format("control_image{}", i)));
  }
  for (const auto& [key, to] : {std::pair{"controlnet_conditioning_scale", &out.control_scale},
                                {"control_guidance_start", &out.control_start},
                                {"control_guidance_end", &out.control_end}}) {
    const Json* value = given(call, key);
    if (value != nullptr && value->is_array()) {
      std::ranges::transform(value->items(), std::back_inserter(*to), &Json::as_number);
    } else if (value != nullptr) {
      to->push_back(value->as_number());
    }
  }
  const Json* guess = given(call, "guess_mode");
  out.guess_mode = guess != nullptr && guess->as_bool();
}

}  // namespace

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
    if (const std::vector<std::string> negative = texts(key); negative.size() > 1) {
      out.negative_prompts = negative;
    } else if (!negative.empty()) {
      *to = negative.front();
    }
  }
  out.start = start_of(c, call);
  add_control_pictures(c, call, out.files);
  if (c.has("control_image")) {
    out.files.control_image = c.tensor("control_image");
  }
  const model_files::PipelineClass& own = *model_files::pipeline_class(folder.class_name);
  if (own.edits_image && c.has("image")) {
    out.files.references = {c.tensor("image")};
    const Json* resizes = given(call, "_auto_resize");
    out.files.resizes_references = resizes == nullptr || resizes->as_bool();
  }
  // In cases of image networks `mask` is that of the text's tokens.
  if (!out.start.is_given() && is_wan(folder)) {
    add_control_video(c, out.files);
    add_animation(c, call, out.files.animation);
  }
  // In cases of image networks that start from noise, `image` is the result.
  for (const auto& [name, image] :
       {std::pair{"image", &out.files.images.first}, {"last_image", &out.files.images.last}}) {
    if (is_wan(folder) && c.has(name)) {
      *image = c.tensor(name);
    }
  }
  if (const Json* images = given(call, "num_images_per_prompt")) {
    out.num_videos_per_prompt = images->as_int();
  }
  out.num_frames = out.files.animation.is_given() ? out.files.animation.poses.shape.dims.at(0)
                   : out.start.is_given()         ? out.start.frames.shape.dims[0]
                   : is_wan(folder)               ? call.at("num_frames").as_int()
                                                  : 1;
  const auto side = [&](const char* key, size_t axis) {
    // Of a start without a size its own, in whole cells of the autoencoder.
    constexpr int64_t kCell = 8;
    return given(call, key) == nullptr && out.start.is_given()
               ? out.start.frames.shape.dims[axis] / kCell * kCell
               : call.at(key).as_int();
  };
  out.height = side("height", 1);
  out.width = side("width", 2);
  out.num_inference_steps = call.at("num_inference_steps").as_int();
  out.guidance_scale = is_wan(folder) ? call.at("guidance_scale").as_number()
                                      : number("guidance_scale", own.images.guidance_scale);
  if (const Json* second = given(call, "guidance_scale_2")) {
    out.guidance_scale_2 = second->as_number();
  }
  out.guidance_rescale = number("guidance_rescale", 0.0);
  out.true_cfg_scale = number("true_cfg_scale", 1.0);
  if (const Json* most = given(call, "cfg_normalization")) {
    out.guidance_normalization =
        most->kind() == Json::Kind::Bool ? double(most->as_bool()) : most->as_number();
  }
  out.guidance_truncation = number("cfg_truncation", 1.0);
  out.picture_sizes = picture_sizes(call, "");
  if (given(call, "negative_original_size") && given(call, "negative_target_size")) {
    out.negative_picture_sizes = picture_sizes(call, "negative_");
    if (out.start.is_given()) {  // the reference reads no negative crop there
      out.negative_picture_sizes->crop = out.picture_sizes.crop;
    }
  }
  out.batch_size = out.videos();
  out.schedule = schedule_of(c, folder);
  out.initial_latents = c.folder() / "io" / (c.name() + ".safetensors");
  return out;
}

}  // namespace kinema::verification
