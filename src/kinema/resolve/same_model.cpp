#include "kinema/resolve/same_model.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "kinema/config/keys.h"

namespace kinema::resolve {
namespace {

/// Keys that only a request, its output or its log lines read.
constexpr std::array<std::string_view, 64> kOfRequest{
    "prompt",
    "prompt_file",
    "prompt_2",
    "negative_prompt",
    "negative_prompt_2",
    "prompt_syntax",
    "height",
    "width",
    "num_frames",
    "fps",
    "image",
    "image_url",
    "last_image_url",
    "video",
    "mask",
    "mask_blur",
    "control_image",
    "control_video",
    "control_mask",
    "control_scale",
    "pose_video",
    "face_video",
    "background_video",
    "mask_video",
    "animate_folder",
    "mode",
    "segment_frame_length",
    "prev_segment_conditioning_frames",
    "animate_guidance_scale",
    "reference_images",
    "strength",
    "scheduler",
    "noise_levels",
    "sigmas",
    "timesteps",
    "diffusion_scheduler_config",
    "flow_shift",
    "num_inference_steps",
    "guidance_scale",
    "guidance_scale_low",
    "guidance_scale_high",
    "do_classifier_free_guidance",
    "guidance_rescale",
    "true_cfg_scale",
    "original_size",
    "crops_coords_top_left",
    "target_size",
    "negative_original_size",
    "negative_crops_coords_top_left",
    "negative_target_size",
    "seed",
    "initial_latents",
    "save_latents",
    "video_folder",
    "video_enlarge",
    "contact_sheet",
    "contact_sheet_columns",
    "save_frames",
    "image_format",
    "image_quality",
    "num_videos_per_prompt",
    "num_images_per_prompt",
    "first_video_index",
    "generate_batch_size",
};

/// Keys that only choose the files of weights; shapes and dtypes are part of a step's description.
constexpr std::array<std::string_view, 2> kOfWeights{"pretrained_model_name_or_path",
                                                     "lora_config"};

bool is_of_request(std::string_view key) {
  return std::ranges::find(kOfRequest, key) != kOfRequest.end();
}

/// True if the keys for which `counts` is true have the same values and were given in both.
bool same(const config::Loaded& a, const config::Loaded& b,
          bool (*counts)(const config::KeyValue&)) {
  return std::ranges::equal(config::describe(a.config), config::describe(b.config),
                            [&](const config::KeyValue& x, const config::KeyValue& y) {
                              const std::string key(x.key);
                              return !counts(x) ||
                                     (x.value == y.value && a.is_set(key) == b.is_set(key));
                            });
}

}  // namespace

bool same_model(const Settings& a, const Settings& b) {
  return same(a, b, [](const config::KeyValue& each) { return !is_of_request(each.key); });
}

bool same_programs(const Settings& a, const Settings& b) {
  return same(a, b, [](const config::KeyValue& each) {
    return !is_of_request(each.key) && std::ranges::find(kOfWeights, each.key) == kOfWeights.end();
  });
}

bool same_devices(const Settings& a, const Settings& b) {
  return same(a, b, [](const config::KeyValue& each) {
    return !is_of_request(each.key) &&
           (each.group == "run" || each.group == "runtime" || each.group == "parallel");
  });
}

}  // namespace kinema::resolve
