#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kinema/config/animate_config.h"
#include "kinema/config/choices.h"
#include "kinema/config/control_config.h"
#include "kinema/config/field.h"
#include "kinema/config/given.h"
#include "kinema/config/output_config.h"
#include "kinema/config/picture_size_config.h"
#include "kinema/config/step_cache_config.h"

namespace kinema::config {

/// What is made and by which sampler settings. Training uses the sizes too.
struct GenerateConfig : ControlConfig,
                        AnimateConfig,
                        PictureSizeConfig,
                        OutputConfig,
                        StepCacheConfig {
  int64_t height = 720;
  int64_t width = 1280;
  int64_t num_frames = 81;
  int64_t fps = 16;

  std::string prompt = "A cat and a dog baking a cake together in a kitchen.";
  std::string prompt_file;
  std::string negative_prompt;
  Given<std::string> prompt_2;
  Given<std::string> negative_prompt_2;
  PromptSyntax prompt_syntax = PromptSyntax::PLAIN;
  std::string lora_folder;
  std::string embeddings_folder;
  std::string image_url;
  std::string last_image_url;
  std::string image;
  std::string video;
  std::string mask;
  std::vector<std::string> control_image;
  std::string control_video;
  std::string control_mask;
  std::vector<std::string> reference_images;
  bool resize_reference = true;
  Given<double> strength = 1.0;
  int64_t mask_padding = -1;
  double mask_blur = 0.0;
  Given<std::string> scheduler = std::string("unipc");
  Given<std::string> noise_levels = std::string("model");
  std::vector<double> sigmas;
  std::vector<double> timesteps;
  int64_t num_inference_steps = 50;
  Given<double> guidance_scale = 5.0;
  Given<double> guidance_scale_low = 3.0;
  Given<double> guidance_scale_high = 4.0;
  bool do_classifier_free_guidance = true;
  double guidance_rescale = 0.0;
  double cfg_normalization = 0.0;
  double cfg_truncation = 1.0;
  double true_cfg_scale = 1.0;
  int64_t clip_skip = 0;
  Given<double> boundary_ratio = 0.875;
  Given<double> flow_shift = 5.0;
  Tree diffusion_scheduler_config;
  bool use_ema = true;

  std::string initial_latents;
  std::string save_latents;
  bool guidance_in_two_passes = false;
  int64_t generate_checkpoint_step = -1;
  bool scan_diffusion_loop = false;

  bool operator==(const GenerateConfig&) const = default;

  template <typename Self, typename Visitor>
  static void fields(Self& self, Visitor&& visit) {
    visit("height", self.height, MAY_CHANGE,
          {.help = "height in pixels",
           .min = 1,
           .max = 65536,
           .share = Share::YES,
           .reload = Reload::NOTHING});
    visit("width", self.width, MAY_CHANGE,
          {.help = "width in pixels",
           .min = 1,
           .max = 65536,
           .share = Share::YES,
           .reload = Reload::NOTHING});
    visit("num_frames", self.num_frames, MAY_CHANGE,
          {.help = "number of frames",
           .min = 1,
           .max = 65536,
           .needs = {Needs::VIDEOS},
           .share = Share::YES,
           .reload = Reload::NOTHING});
    visit("fps", self.fps, UNRELATED,
          {.help = "frames per second of the mp4",
           .min = 1,
           .max = 1000,
           .needs = {Needs::VIDEOS},
           .share = Share::YES,
           .reload = Reload::NOTHING});
    visit("prompt", self.prompt, UNRELATED,
          {.help = "prompt", .prose = true, .share = Share::YES, .reload = Reload::NOTHING});
    visit("prompt_file", self.prompt_file, UNRELATED,
          {.help = "text file with one prompt per line; a prompt on the command line overrides it",
           .reload = Reload::NOTHING});
    visit("negative_prompt", self.negative_prompt, UNRELATED,
          {.help = "negative prompt of classifier-free guidance",
           .prose = true,
           .needs = {Needs::TWO_PASSES},
           .share = Share::YES,
           .reload = Reload::NOTHING});
    visit("prompt_2", self.prompt_2, UNRELATED,
          {.help = "flux, sdxl: prompt of the second text encoder; not given: prompt",
           .prose = true,
           .needs = {Needs::SECOND_TEXT},
           .share = Share::YES,
           .reload = Reload::NOTHING});
    visit("negative_prompt_2", self.negative_prompt_2, UNRELATED,
          {.help =
               "flux, sdxl: negative prompt of the second text encoder; not given: negative_prompt",
           .prose = true,
           .needs = {Needs::SECOND_TEXT, Needs::TWO_PASSES},
           .share = Share::YES,
           .reload = Reload::NOTHING});
    visit("prompt_syntax", self.prompt_syntax, UNRELATED,
          {.help = "how prompts are read; a1111: weights (word:1.3), BREAK, [from:to:0.5], [a|b], "
                   "<lora:name:0.8>, as in AUTOMATIC1111's webui; compel: word++, (words)0.8, "
                   "(\"a\", \"b\").blend(1, 1); plain: as text",
           .one_of = choices(self.prompt_syntax),
           .share = Share::YES,
           .reload = Reload::NOTHING});
    visit("lora_folder", self.lora_folder, UNRELATED,
          {.help = "folder with the LoRA files that prompts name, with <lora:name:0.8> or "
                   "withLora(name, 0.8)"});
    visit(
        "embeddings_folder", self.embeddings_folder, UNRELATED,
        {.help = "sdxl, flux: folder with textual inversion files, which prompts name by the names "
                 "of the files"});
    visit("image_url", self.image_url, UNRELATED,
          {.help = "first frame of the video: path or URL of an image (image to video, TI2V)",
           .share = Share::FILE,
           .reload = Reload::NOTHING});
    visit("last_image_url", self.last_image_url, UNRELATED,
          {.help = "last frame of the video: path or URL of an image (first and last frame models)",
           .share = Share::FILE,
           .reload = Reload::NOTHING});
    visit("image", self.image, UNRELATED,
          {.help = "picture to start from (image to image, inpainting): path or URL; of image to "
                   "video models the first frame, as image_url",
           .share = Share::FILE,
           .reload = Reload::NOTHING});
    visit("video", self.video, UNRELATED,
          {.help = "video to start from (video to video), whose frames at the rate fps are changed "
                   "by a text to video model",
           .needs = {Needs::VIDEOS},
           .share = Share::FILE,
           .reload = Reload::NOTHING});
    visit("mask", self.mask, UNRELATED,
          {.help = "picture of the part that is made: white is made, black is kept (inpainting)",
           .share = Share::FILE,
           .reload = Reload::NOTHING});
    visit(
        "control_image", self.control_image, UNRELATED,
        {.help = "picture that the result follows: edges, depth, poses ... of ControlNets, one for "
                 "each or a list; the edges or depth of Flux Canny and Depth",
         .or_item = true,
         .needs = {Needs::IMAGES},
         .share = Share::FILE,
         .reload = Reload::NOTHING});
    ControlConfig::fields(self, visit);
    visit(
        "control_video", self.control_video, UNRELATED,
        {.help = "video that the result follows or completes, frame by frame (VACE): poses, depth, "
                 "edges, or the frames to be changed where control_mask is white",
         .needs = {Needs::VIDEOS},
         .share = Share::FILE,
         .reload = Reload::NOTHING});
    visit("control_mask", self.control_mask, UNRELATED,
          {.help = "of control_video: a video or picture, white where the result is made, black "
                   "where it is kept; not given: all is made",
           .with = "control_video",
           .needs = {Needs::VIDEOS},
           .share = Share::FILE,
           .reload = Reload::NOTHING});
    AnimateConfig::fields(self, visit);
    visit("reference_images", self.reference_images, UNRELATED,
          {.help = "pictures that the result is made from, beside the prompt: the picture that "
                   "FLUX.1 Kontext edits, subjects and backgrounds of VACE",
           .or_item = true,
           .share = Share::FILE,
           .reload = Reload::NOTHING});
    visit(
        "resize_reference", self.resize_reference, UNRELATED,
        {.help = "flux: a reference picture is resized to the size of about a megapixel, of those "
                 "that Kontext was trained with, whose aspect ratio is nearest; false: it keeps "
                 "its size, in multiples of 16",
         .needs = {Needs::IMAGES},
         .share = Share::YES});
    visit("strength", self.strength, UNRELATED,
          {.help = "part of num_inference_steps that changes the given picture or video: near 0 "
                   "little, 1 all; not given: 0.6 of an image, 0.8 of a video, 1 with a mask",
           .max = 1,
           .above = 0,
           .share = Share::YES,
           .reload = Reload::NOTHING});
    visit("mask_padding", self.mask_padding, UNRELATED,
          {.help = "only the region around the mask, with so many pixels on each side, is made, at "
                   "height x width, and put back into the picture; -1: the whole picture is made",
           .min = -1,
           .max = 4096,
           .with = "mask",
           .needs = {Needs::IMAGES},
           .share = Share::YES,
           .reload = Reload::NOTHING});
    visit("mask_blur", self.mask_blur, UNRELATED,
          {.help = "standard deviation in pixels of the blur of the mask's edge, over which made "
                   "and kept pixels are mixed; 0: kept pixels are returned exactly",
           .min = 0,
           .max = 256,
           .with = "mask",
           .share = Share::YES,
           .reload = Reload::NOTHING});
    visit(
        "scheduler", self.scheduler, UNRELATED,
        {.help = "sampler; overrides the class in the model's scheduler_config.json: euler, unipc, "
                 "dpmpp_2m, dpmpp_2m_sde, dpmpp_3m_sde, dpmpp_sde, dpmpp_2s, dpmpp_2s_ancestral, "
                 "dpm_2, dpm_2_ancestral, deis, euler_ancestral, heun, lms, ddim, ddpm, pndm, lcm, "
                 "tcd, or a name of diffusers, ComfyUI or "
                 "AUTOMATIC1111's webui (`DPM++ 2M Karras`)",
         .share = Share::YES,
         .reload = Reload::NOTHING});
    visit(
        "noise_levels", self.noise_levels, UNRELATED,
        {.help = "how the sampler's noise levels lie between the largest and the smallest; model: "
                 "as in the model's scheduler_config.json",
         .one_of = "model | karras | exponential | beta | lu | ays",
         .share = Share::YES,
         .reload = Reload::NOTHING});
    visit("sigmas", self.sigmas, UNRELATED,
          {.help = "noise levels, falling, which replace num_inference_steps; empty: the sampler's",
           .min = 0,
           .share = Share::YES,
           .reload = Reload::NOTHING});
    visit("timesteps", self.timesteps, UNRELATED,
          {.help = "training timesteps to visit, falling, which replace num_inference_steps "
                   "(distilled models); empty: the sampler's",
           .min = 0,
           .share = Share::YES,
           .reload = Reload::NOTHING});
    visit("num_inference_steps", self.num_inference_steps, UNRELATED,
          {.help = "number of denoising steps, at most the model's timesteps (1000)",
           .min = 1,
           .max = 100000,
           .share = Share::YES,
           .reload = Reload::NOTHING});
    visit("guidance_scale", self.guidance_scale, UNRELATED,
          {.help = "classifier-free guidance scale; 1: no guidance",
           .min = 0,
           .needs = {Needs::GUIDANCE},
           .share = Share::YES,
           .reload = Reload::NOTHING});
    visit("do_classifier_free_guidance", self.do_classifier_free_guidance, UNRELATED,
          {.help = "false: same as guidance_scale 1",
           .share = Share::YES,
           .reload = Reload::NOTHING});
    visit("guidance_scale_low", self.guidance_scale_low, UNRELATED,
          {.help = "wan2.2: guidance scale of the low-noise expert",
           .min = 0,
           .needs = {Needs::EXPERTS},
           .share = Share::YES,
           .reload = Reload::NOTHING});
    visit("guidance_scale_high", self.guidance_scale_high, UNRELATED,
          {.help =
               "wan2.2: guidance scale of the high-noise expert; 1: no guidance for either expert",
           .min = 0,
           .needs = {Needs::EXPERTS},
           .share = Share::YES,
           .reload = Reload::NOTHING});
    visit("guidance_rescale", self.guidance_rescale, UNRELATED,
          {.help = "guidance rescale factor (arXiv:2305.08891); 0 or less: off",
           .max = 1,
           .needs = {Needs::TWO_PASSES},
           .share = Share::YES,
           .reload = Reload::NOTHING});
    visit("cfg_normalization", self.cfg_normalization, UNRELATED,
          {.help = "z-image: the guided prediction is at most this many times as long as the "
                   "prompt's; 0: off",
           .min = 0,
           .needs = {Needs::TWO_PASSES},
           .share = Share::YES});
    visit("cfg_truncation", self.cfg_truncation, UNRELATED,
          {.help = "z-image: steps with 1 - t/1000 above this have no guidance; 1: all have",
           .min = 0,
           .needs = {Needs::TWO_PASSES},
           .share = Share::YES});
    visit("true_cfg_scale", self.true_cfg_scale, UNRELATED,
          {.help = "flux: scale of classifier-free guidance with a negative prompt, a second pass "
                   "in addition to the embedded guidance_scale; 1 or no negative prompt: off",
           .min = 0,
           .needs = {Needs::TRUE_GUIDANCE},
           .share = Share::YES,
           .reload = Reload::NOTHING});
    visit("clip_skip", self.clip_skip, UNRELATED,
          {.help = "sdxl: number of additional final CLIP layers to skip",
           .min = 0,
           .max = 64,
           .needs = {Needs::INNER_CLIP},
           .share = Share::YES});
    PictureSizeConfig::fields(self, visit);
    visit("boundary_ratio", self.boundary_ratio, MUST_MATCH,
          {.help = "wan2.2: timesteps at or above this fraction use the high-noise expert",
           .min = 0,
           .max = 1,
           .needs = {Needs::EXPERTS},
           .share = Share::YES});
    visit("flow_shift", self.flow_shift, UNRELATED,
          {.help = "shift of the sampler's sigmas",
           .above = 0,
           .needs = {Needs::FLOW},
           .share = Share::YES,
           .reload = Reload::NOTHING});
    visit(
        "diffusion_scheduler_config", self.diffusion_scheduler_config, MAY_CHANGE,
        {.help =
             "sd, sdxl: overrides of the model's scheduler_config.json: _class_name, "
             "prediction_type, rescale_zero_terminal_snr (both in training too), timestep_spacing, "
             "clip_sample, set_alpha_to_one and the settings of the class",
         .needs = {Needs::DIFFUSION},
         .share = Share::YES,
         .reload = Reload::NOTHING});
    visit("use_ema", self.use_ema, UNRELATED,
          {.help = "use the EMA weights of a run where it has them", .share = Share::YES});
    visit("initial_latents", self.initial_latents, UNRELATED,
          {.help = "safetensors file with the initial noise",
           .share = Share::FILE,
           .reload = Reload::NOTHING});
    visit("save_latents", self.save_latents, UNRELATED,
          {.help = "safetensors file for the final latents", .reload = Reload::NOTHING});
    OutputConfig::fields(self, visit);
    visit(
        "guidance_in_two_passes", self.guidance_in_two_passes, UNRELATED,
        {.help = "run the prompt and the negative prompt one after the other: less memory, slower",
         .needs = {Needs::TWO_PASSES},
         .share = Share::YES});
    visit("generate_checkpoint_step", self.generate_checkpoint_step, UNRELATED,
          {.help = "step of the checkpoint to sample; -1: newest", .min = -1, .share = Share::YES});
    StepCacheConfig::fields(self, visit);
    visit("scan_diffusion_loop", self.scan_diffusion_loop, UNRELATED,
          {.help = "all sampling steps in one program", .later = "sampling in one program"});
  }
};

}  // namespace kinema::config
