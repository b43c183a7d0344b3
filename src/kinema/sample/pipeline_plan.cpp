#include "kinema/sample/pipeline_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/io/folder.h"
#include "kinema/io/safetensors.h"
#include "kinema/runtime/device_memory.h"
#include "kinema/runtime/environment.h"
#include "kinema/sample/latents.h"
#include "kinema/sample/memory.h"

namespace kinema::sample {
namespace {

/// True for a file that `save` wrote, which may be overwritten.
bool holds_latents(const std::filesystem::path& path) {
  try {
    const auto file = io::SafetensorsFile::open(path);
    return file.tensors().size() == 1 && file.tensors()[0].name == "latents";
  } catch (const Error&) {
    return false;
  }
}

void check_request(const GenerateRequest& request) {
  check(!request.prompts.empty(), "[sample] there is no prompt");
  check(request.prompts_2.empty() || request.prompts_2.size() == request.prompts.size(),
        "[sample] there are {} prompts, and {} for the second encoder", request.prompts.size(),
        request.prompts_2.size());
  check(
      request.negative_prompts.empty() || request.negative_prompts.size() == request.prompts.size(),
      "[sample] there are {} prompts and {} negative prompts, expected as many, or one",
      request.prompts.size(), request.negative_prompts.size());
  check(request.num_videos_per_prompt >= 1,
        "[sample] num_videos_per_prompt is {}, expected 1 or more", request.num_videos_per_prompt);
  check(request.batch_size >= 1, "[sample] the batch size is {}, expected 1 or more",
        request.batch_size);
  check_start(request.start);
  check(request.guidance_normalization >= 0.0,
        "[sample] cfg_normalization is {}, expected 0 (off) or more",
        request.guidance_normalization);
  check(request.guidance_truncation >= 0.0,
        "[sample] cfg_truncation is {}, expected 0 or more; from 1 on all steps are guided",
        request.guidance_truncation);
  check(request.guidance_rescale >= 0.0 && request.guidance_rescale <= 1.0,
        "[sample] guidance_rescale is {}, expected 0 to 1", request.guidance_rescale);
  if (const std::filesystem::path& path = request.save_latents; !path.empty()) {
    check(!std::filesystem::is_directory(path),
          "[sample] save_latents {} is a folder, a file was expected", path.string());
    check(!std::filesystem::exists(path) || holds_latents(path),
          "[sample] save_latents {} exists already and is not a file of latents\n  choose another "
          "name, or remove it",
          path.string());
    io::make_folder(path.parent_path());
  }
}

}  // namespace

VideoRange videos_in_share(const GenerateRequest& request, int64_t index) {
  const int64_t size = std::max<int64_t>(1, std::min(request.batch_size, request.videos()));
  const int64_t batches = (request.videos() + size - 1) / size;
  const int64_t each = batches / request.share.count;
  const int64_t more = batches % request.share.count;  // the first shares have one batch more
  const int64_t first = (index * each + std::min(index, more)) * size;
  const int64_t end = first + (each + (index < more ? 1 : 0)) * size;
  return {.first = first, .count = std::max<int64_t>(0, std::min(end, request.videos()) - first)};
}

double classifier_free_scale(const GenerateRequest& request, const networks::Sizes& network) {
  const double negative_scale = request.negative_prompt ? request.true_cfg_scale : 1.0;
  return network.guidance_distilled ? negative_scale
                                    : request.guidance_scale + network.guidance_offset;
}

Pipeline::Plan Pipeline::plan(const GenerateRequest& request,
                              const GenerateObserver& observer) const {
  check_request(request);
  const networks::Sizes& network = experts_.network(0).sizes();
  const encoders::LatentLayout layout = parts_.autoencoder->layout();
  Plan out{.release_encoders_first = options_.releases_encoders};
  const VideoRange own = videos_in_share(request, request.share.index);
  check(own.count > 0, "[sample] share {} of {} has no video", request.share.index,
        request.share.count);
  out.first = own.first;
  out.videos = own.count;
  out.batch = std::min(request.batch_size, request.videos());
  out.prompts = std::ssize(request.prompts);
  if (!request.share.all_texts) {
    out.first_prompt = out.first / request.num_videos_per_prompt;
    out.prompts =
        (out.first + out.videos - 1) / request.num_videos_per_prompt + 1 - out.first_prompt;
  }
  const std::vector<networks::NamedInput> inputs =
      given_inputs(network, experts_.folder().expand_timesteps, request.files, request.start);
  for (const networks::NamedInput& each : inputs) {
    out.inputs.push_back(step_input(each, network, request.files, layout));
  }
  check_image_tokens(network, parts_.image_encoder != nullptr, request.files.images);
  const bool in_segments = networks::find_entry(inputs, networks::Entry::POSES) != nullptr;
  out.segments = in_segments ? segments_of(request.files.animation, layout.temporal) : Segments();
  const int64_t num_frames = network.makes_images ? 1
                             : in_segments        ? out.segments.length
                                                  : request.num_frames;
  out.sizes = video_sizes(num_frames, request.height, request.width, layout, network.patch_size,
                          network.max_positions);
  out.sizes.is_image = network.makes_images;
  if (!in_segments) {
    out.segments.length = out.segments.frames = out.sizes.num_frames;
  }
  out.sizes.references = reference_frames(inputs, request.files);
  if (observer.note && out.sizes.num_frames != num_frames) {
    observer.note(fmt::format(
        "num_frames {} is made {}: lengths that the autoencoder {} has are {}", request.num_frames,
        out.sizes.num_frames, parts_.autoencoder->name(),
        layout.first_frame_alone ? fmt::format("1 more than a multiple of {}", layout.temporal)
                                 : fmt::format("multiples of {}", layout.temporal)));
  }
  if (!request.initial_latents.empty()) {  // checked before anything is compiled
    StartNoise{.videos = 0, .all_videos = request.videos(), .file = request.initial_latents}.draw(
        "noise", out.sizes.denoised());
  }
  out.schedule =
      request.schedule.value_or(experts_.folder().schedule.value_or(schedulers::ScheduleConfig{}));
  if (request.start.is_given()) {
    out.schedule.first_step =
        first_step(out.schedule, schedulers::step_count(out.schedule, request.num_inference_steps),
                   request.start.strength);
  }
  const double scale = classifier_free_scale(request, network);
  out.settings = {.schedule = schedulers::make_schedule(out.schedule, request.num_inference_steps,
                                                        network.tokens(out.sizes.denoised())),
                  .guidance_scale = scale,
                  .guidance_scale_2 = request.guidance_scale_2.value_or(scale),
                  .embedded_guidance = network.takes_guidance ? request.guidance_scale : 0.0,
                  .guidance_rescale = request.guidance_rescale,
                  .guidance_normalization = request.guidance_normalization,
                  .guidance_truncation = request.guidance_truncation,
                  .two_passes = request.two_passes,
                  .control = control_scales(network, request.files),
                  .guess_mode = request.files.guess_mode || network.control_pools,
                  .reuse = request.reuse,
                  .seed = request.seed};
  if (out.settings.reuse.magcache) {
    out.settings.reuse.magcache->image_to_video = network.condition_channels() > 0;
  }
  if (out.settings.reuse.guidance) {
    out.settings.reuse.guidance->height = out.sizes.height;
  }
  out.needs_pooled = network.pooled_dim > 0;
  out.needs_size_ids = network.size_ids > 0;
  bool all_guided = true;
  for (const float t : out.settings.schedule.timesteps) {
    const int64_t expert = experts_.at_timestep(t);
    out.experts.insert(expert);
    const bool guided = is_guided(out.settings, expert);
    out.guided |= guided;
    all_guided &= guided;
  }
  check_reuse(out.settings.reuse, all_guided);
  check(request.guidance_truncation >= 1.0 || !out.guided ||
            !(request.reuse.magcache || request.reuse.guidance || request.reuse.sencache),
        "[sample] cfg_truncation is {}: steps without guidance cannot use results of earlier ones\n"
        "  turn off either",
        request.guidance_truncation);
  add_texts(request, out);
  if (observer.note && !out.guided && experts_.size() == 2 && out.settings.guidance_scale_2 > 1.0) {
    observer.note(fmt::format(
        "the low-noise expert's guidance scale {} has no effect: that of the high-noise expert is "
        "{}, and 1 or less turns guidance off for both, as in diffusers",
        out.settings.guidance_scale_2, out.settings.guidance_scale));
  }
  return out;
}

VideoSizes Pipeline::Plan::whole_sizes() const {
  VideoSizes out = sizes;
  out.num_frames = segments.frames;
  return out;
}

const networks::NamedInput* Pipeline::Plan::filled() const {
  for (const StepInput& each : inputs) {
    using enum networks::MadeOf;
    if (each.input.made_of == MASK_AND_KEPT || each.input.made_of == KEPT_AND_MASK ||
        each.input.made_of == FOLLOWED_AND_KEPT) {
      return &each.input;
    }
  }
  return nullptr;
}

int64_t TextSteps::at(int64_t step) const {
  const auto found =
      std::ranges::find_if(steps, [step](const Until& each) { return step < each.last_step; });
  return (found == steps.end() ? steps.back() : *found).text;
}

void Pipeline::add_texts(const GenerateRequest& request, Plan& plan) const {
  const auto add = [&](const encoders::Prompt& prompt) {
    TextSteps out;
    for (encoders::PromptUntil& each :
         encoders::prompts_by_step(prompt, plan.settings.schedule.size())) {
      auto found = std::ranges::find(plan.texts, each.prompt);
      // Without changes each prompt has its own text, so that batches of texts stay as they were.
      if (found == plan.texts.end() || request.prompt_syntax == text::PromptSyntax::PLAIN) {
        found = plan.texts.insert(plan.texts.end(), std::move(each.prompt));
      }
      out.steps.push_back({each.last_step, found - plan.texts.begin()});
    }
    return out;
  };
  for (int64_t i = plan.first_prompt; i < plan.first_prompt + plan.prompts; ++i) {
    const auto at = static_cast<size_t>(i);
    encoders::Prompt prompt{.text = request.prompts[at], .syntax = request.prompt_syntax};
    if (!request.prompts_2.empty()) {
      prompt.second = request.prompts_2[at];
    }
    plan.prompt_steps.push_back(add(prompt));
  }
  plan.zero_negative =
      plan.guided && !request.negative_prompt && experts_.folder().force_zeros_for_empty_prompt;
  if (plan.zero_negative) {
    plan.negative_steps = {{{{plan.settings.schedule.size(), std::ssize(plan.texts)}}}};
  } else if (plan.guided && !request.negative_prompts.empty()) {
    for (int64_t i = plan.first_prompt; i < plan.first_prompt + plan.prompts; ++i) {
      plan.negative_steps.push_back(add({.text = request.negative_prompts[static_cast<size_t>(i)],
                                         .is_negative = true,
                                         .syntax = request.prompt_syntax}));
    }
  } else if (plan.guided) {
    plan.negative_steps = {add({.text = request.negative_prompt.value_or(""),
                                .second = request.negative_prompt_2,
                                .is_negative = true,
                                .syntax = request.prompt_syntax})};
  }
  plan.text_rows = parts_.text_encoder->rows(plan.texts);
  // Of an encoder that always returns the same rows it is not known how many are a prompt's.
  plan.settings.text_fills =
      plan.text_rows < parts_.text_encoder->shape().dims[0] &&
      !experts_.network(0).sizes().reads_padding &&
      std::ranges::all_of(plan.texts, [&](const encoders::Prompt& each) {
        return parts_.text_encoder->rows(std::span(&each, 1)) == plan.text_rows;
      });
}

int64_t Pipeline::free_bytes(const Plan& plan) const {
  // The host holds the noise of all videos, and temporarily a second copy in batches.
  const int64_t noise = plan.videos * Shape{DType::F32, plan.sizes.denoised()}.bytes();
  return options_.available_bytes.value_or(available_bytes(programs_->devices(), 2 * noise));
}

/// Throws the error of this or of another process, the same in all.
void Pipeline::check_together(const std::function<void()>& work) const {
  if (!options_.agree) {
    work();
    return;
  }
  std::string problem;
  try {
    work();
  } catch (const Error& error) {
    problem = error.what();
  }
  problem = options_.agree(problem);
  check(problem.empty(), "{}", problem);
}

bool Pipeline::all_agree(bool own) const {
  return options_.agree ? options_.agree(own ? "" : "no").empty() : own;
}

void Pipeline::release_encoders() const {
  parts_.text_encoder->release();
  if (parts_.image_encoder) {
    parts_.image_encoder->release();
  }
  parts_.autoencoder->release();
}

/// Compiles the programs and checks whether they fit; if not, encoders of an earlier request are
/// freed. Prompt and negative prompt in one batch are faster; if only one after the other fits,
/// that is used.
void Pipeline::make_room(Plan& plan, const GenerateRequest& request,
                         const GenerateObserver& observer) {
  // The memory of a step depends on shapes only.
  DenoiseBatch batch;
  for (const StepInput& each : plan.inputs) {
    batch.inputs.push_back({.step = each, .value = {}});
  }
  const auto batched = [&](Dims dims) {
    dims.insert(dims.begin(), plan.batch);
    return Shape{DType::F32, std::move(dims)};
  };
  batch.latents.shape = batched(plan.sizes.denoised());
  batch.text.shape = batched({plan.text_rows, parts_.text_encoder->shape().dims[1]});
  if (request.start.has_mask() && plan.filled() == nullptr) {
    batch.mask.shape = {DType::F32, {1, 1, 1, 1, 1}};
  }
  if (experts_.network(0).sizes().image_dim > 0) {
    Dims tokens = parts_.image_encoder->shape().dims;
    tokens[0] *= request.files.images.last.bytes.empty() ? 1 : 2;
    batch.image.shape = batched(tokens);
  }
  for (const int64_t expert : plan.experts) {
    StepSpec spec = step_spec(experts_, expert, batch, plan.settings);
    check_contexts(spec);
    if (observer.layout && expert == *plan.experts.begin() && experts_.options().place.active()) {
      observer.layout(contexts_text(spec, experts_.options().place));
    }
    const bool has_parameter_memory = experts_.has_parameter_memory(expert);
    const auto ensure_free = [&](int64_t bytes) {
      if (bytes > free_bytes(plan)) {
        plan.release_encoders_first = true;
        release_encoders();
      }
    };
    ensure_free(least_step_bytes(spec, programs_->devices()));
    check_together([&] {
      check_size_fits(spec, programs_->devices(), plan.sizes, has_parameter_memory,
                      free_bytes(plan));
    });
    ensure_free(programs_->get(spec).report().memory.total());
    const auto fits = [&] {
      return all_agree(step_fits(*programs_, spec, has_parameter_memory, free_bytes(plan)));
    };
    if (spec.guidance == Guidance::DOUBLED_BATCH && !fits()) {
      DenoiseSettings apart = plan.settings;
      apart.two_passes = true;
      spec = step_spec(experts_, expert, batch, apart);
      if (contexts_divide(spec) && fits()) {
        plan.settings = apart;
        if (observer.note) {
          observer.note(
              "prompt and negative prompt go one after the other: both at once do not fit");
        }
      }
    }
    check_together([&] {
      check_step_fits(*programs_, spec, plan.sizes, parts_.autoencoder->layout(),
                      has_parameter_memory, free_bytes(plan));
    });
    const int64_t parameters = parameter_bytes(spec.network, spec.options, programs_->devices());
    plan.step_bytes = std::max(plan.step_bytes, programs_->get(spec).report().memory.total() -
                                                    (has_parameter_memory ? parameters : 0));
    plan.loaded_bytes = std::max(plan.loaded_bytes, has_parameter_memory ? 0 : parameters);
    if (observer.sharding && expert == *plan.experts.begin() &&
        programs_->devices().placement().active()) {
      observer.sharding(programs_->sharding_report(spec));
    }
  }
}

MemoryUse Pipeline::memory_use(const Plan& plan, const GenerateRequest& request) const {
  const bool on_host = programs_->devices().client().platform_name() == "cpu";
  const Dims& latents = plan.sizes.latents;
  MemoryUse out{
      .text = parts_.text_encoder->memory_bytes(std::span<const encoders::Prompt>(plan.texts)),
      .steps = plan.step_bytes};
  if (request.decodes) {
    out.decode = plan.loaded_bytes + parts_.autoencoder->decode_memory_bytes(latents);
  }
  runtime::release_free_memory();  // of the compiler
  out.kept = plan.release_encoders_first || out.text + out.steps > free_bytes(plan) ? 0 : out.text;
  out.before = runtime::peak_bytes(programs_->devices());
  out.held = runtime::held_bytes(programs_->devices());
  if (on_host && request.decodes) {
    out.frames = plan.videos * plan.sizes.height * plan.sizes.width * 3 * plan.segments.frames;
  }
  return out;
}

void Pipeline::verify(const GenerateRequest& request, const GenerateObserver& observer) const {
  const Plan plan = this->plan(request, observer);
  if (request.decodes) {
    check_frames_fit(plan.videos, plan.whole_sizes(), parts_.autoencoder->layout(),
                     runtime::available_memory_bytes());
  }
}

int64_t GenerateRequest::steps() const {
  if (!schedule) {
    return num_inference_steps;
  }
  const int64_t all = schedulers::step_count(*schedule, num_inference_steps);
  return start.is_given() ? all - first_step(*schedule, all, start.strength) : all;
}

}  // namespace kinema::sample
