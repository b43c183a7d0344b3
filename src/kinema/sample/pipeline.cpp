#include "kinema/sample/pipeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/core/stopwatch.h"
#include "kinema/io/folder.h"
#include "kinema/io/safetensors.h"
#include "kinema/runtime/device_memory.h"
#include "kinema/runtime/environment.h"
#include "kinema/sample/latents.h"
#include "kinema/sample/memory.h"

namespace kinema::sample {
namespace {

/// Which videos each batch of `size` holds; the last one is filled up with its last video, so that
/// every batch runs the same program.
std::vector<std::vector<int64_t>> batches_of(int64_t videos, int64_t size) {
  std::vector<std::vector<int64_t>> batches;
  for (int64_t first = 0; first < videos; first += size) {
    std::vector<int64_t> items;
    for (int64_t i = 0; i < size; ++i) {
      items.push_back(std::min(first + i, videos - 1));
    }
    batches.push_back(std::move(items));
  }
  return batches;
}

/// True for a file that `save` wrote, which another may take the place of.
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
        "[sample] there are {} prompts and {} of a second encoder", request.prompts.size(),
        request.prompts_2.size());
  check(request.num_videos_per_prompt >= 1,
        "[sample] num_videos_per_prompt is {}, expected 1 or more", request.num_videos_per_prompt);
  check(request.batch_size >= 1, "[sample] the batch size is {}, expected 1 or more",
        request.batch_size);
  check(request.guidance_rescale >= 0.0 && request.guidance_rescale <= 1.0,
        "[sample] guidance_rescale is {}, expected 0 to 1", request.guidance_rescale);
  if (const std::filesystem::path& path = request.save_latents; !path.empty()) {
    check(!std::filesystem::is_directory(path),
          "[sample] save_latents {} is a folder, a file was expected", path.string());
    check(!std::filesystem::exists(path) || holds_latents(path),
          "[sample] save_latents {} is there already and is no file of latents\n  give another "
          "name, or remove it",
          path.string());
    io::make_folder(path.parent_path());
  }
}

/// The same array for every video of a batch: a leading axis of `count`.
HostArray repeated(const HostArray& one, int64_t count) {
  if (one.bytes.empty()) {
    return {};
  }
  Shape shape = one.shape;
  shape.dims.insert(shape.dims.begin(), count);
  HostArray out(shape);
  for (auto to = out.bytes.begin(); to != out.bytes.end();) {
    to = std::ranges::copy(one.bytes, to).out;
  }
  return out;
}

/// Row i of the first axis, without it.
HostArray row(const HostArray& x, int64_t i) {
  HostArray out = take_rows(x, {i});
  out.shape.dims.erase(out.shape.dims.begin());
  return out;
}

/// With one more entry of the first axis, all zeros.
HostArray with_zeros(HostArray x) {
  const size_t row = x.bytes.size() / static_cast<size_t>(x.shape.dims[0]);
  ++x.shape.dims[0];
  x.bytes.resize(x.bytes.size() + row);
  return x;
}

/// `count` rows of the first axis.
HostArray own_rows(HostArray all, int64_t first, int64_t count) {
  if (count == all.shape.dims.front()) {
    return all;
  }
  std::vector<int64_t> rows(static_cast<size_t>(count));
  std::iota(rows.begin(), rows.end(), first);
  return take_rows(all, rows);
}

/// The video piece by piece as bytes: the f32 frames are never whole in memory.
HostArray decode_frames(const encoders::Autoencoder& autoencoder, const HostArray& latents,
                        const VideoSizes& sizes) {
  HostArray frames(Shape{DType::U8, {sizes.num_frames, sizes.height, sizes.width, 3}});
  auto to = frames.bytes.begin();
  autoencoder.decode(latents, [&](const HostArray& pixels) {
    const HostArray piece = encoders::to_frames(pixels);
    check(piece.bytes.size() <= static_cast<size_t>(frames.bytes.end() - to) &&
              piece.shape.dims[1] == sizes.height && piece.shape.dims[2] == sizes.width,
          "[sample] the autoencoder {} made more than f32[3,{},{},{}]", autoencoder.name(),
          sizes.num_frames, sizes.height, sizes.width);
    to = std::ranges::copy(piece.bytes, to).out;
  });
  check(to == frames.bytes.end(), "[sample] the autoencoder {} made too few frames",
        autoencoder.name());
  return frames;
}

}  // namespace

VideoRange videos_of_share(const GenerateRequest& request, int64_t index) {
  const int64_t size = std::max<int64_t>(1, std::min(request.batch_size, request.videos()));
  const int64_t batches = (request.videos() + size - 1) / size;
  const int64_t each = batches / request.share.count;
  const int64_t more = batches % request.share.count;  // the first so many have one more
  const int64_t first = (index * each + std::min(index, more)) * size;
  const int64_t end = first + (each + (index < more ? 1 : 0)) * size;
  return {.first = first, .count = std::max<int64_t>(0, std::min(end, request.videos()) - first)};
}

void save_latents(const std::filesystem::path& path, std::span<const HostArray* const> latents) {
  Shape shape = latents.front()->shape;
  shape.dims.insert(shape.dims.begin(), std::ssize(latents));
  HostArray all(shape);
  auto to = all.bytes.begin();
  for (const HostArray* each : latents) {
    to = std::ranges::copy(each->bytes, to).out;
  }
  const std::vector<io::TensorEntry> entries{io::TensorEntry::of("latents", all)};
  io::write_safetensors(path, entries);
}

/// Everything about a request that is known before anything is computed.
struct Pipeline::Plan {
  int64_t first = 0;         // of this process's videos
  int64_t videos = 0;        // of this process
  int64_t batch = 0;         // videos at once
  int64_t first_prompt = 0;  // of those that are encoded
  int64_t prompts = 0;
  VideoSizes sizes;
  Condition condition = Condition::NONE;
  schedulers::ScheduleConfig schedule;
  DenoiseSettings settings;
  bool guided = false;        // by any expert that the schedule uses
  std::set<int64_t> experts;  // that the schedule uses
  int64_t step_bytes = 0;     // of the largest step, with parameters that are to be loaded
  int64_t loaded_bytes = 0;   // of these, the parameters
  bool encoders_go = false;   // to make room for the steps
  bool takes_pooled = false;  // as the network says
  bool takes_sizes = false;
};

Pipeline::Pipeline(const runtime::Devices& devices, PipelineFolder folder, PipelineParts parts,
                   PipelineOptions options)
    : experts_(devices, std::move(folder), options.model, options.lent),
      programs_(options.programs ? options.programs
                                 : std::make_shared<StepPrograms>(devices, options.program)),
      parts_(std::move(parts)),
      options_(std::move(options)) {
  const networks::Sizes& network = experts_.network(0).sizes();
  const int64_t z = parts_.autoencoder->layout().channels;
  const int64_t with_image = 2 * z + parts_.autoencoder->layout().temporal;
  check(
      network.out_channels == z && (network.in_channels == z || network.in_channels == with_image),
      "[sample] the autoencoder {} makes {} channels, but the transformer in {} takes {} and "
      "makes {}: they belong to different models",
      parts_.autoencoder->name(), z, experts_.folder().transformer.string(), network.in_channels,
      network.out_channels);
  const std::string& name = experts_.folder().class_name;
  const bool takes_image = network.in_channels != z || experts_.folder().expand_timesteps;
  check(name.empty() || (experts_.folder().of_images() ? takes_image : network.in_channels == z),
        "[sample] {} is a {}, but its transformer takes {} channels and makes {}: model_index.json "
        "does not fit",
        experts_.folder().folder.string(), name, network.in_channels, network.out_channels);
}

Pipeline::Plan Pipeline::plan(const GenerateRequest& request,
                              const GenerateObserver& observer) const {
  check_request(request);
  const networks::Sizes& network = experts_.network(0).sizes();
  const encoders::LatentLayout layout = parts_.autoencoder->layout();
  Plan out;
  const VideoRange own = videos_of_share(request, request.share.index);
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
  out.condition = condition_of(network, layout, experts_.folder().expand_timesteps, request.images);
  check_image_tokens(network, parts_.image_encoder != nullptr, request.images);
  const int64_t num_frames = network.makes_images ? 1 : request.num_frames;
  out.sizes = video_sizes(num_frames, request.height, request.width, layout, network.patch_size,
                          network.max_positions);
  if (observer.note && out.sizes.num_frames != num_frames) {
    observer.note(fmt::format(
        "num_frames {} is made {}: lengths that the autoencoder {} has are {}", request.num_frames,
        out.sizes.num_frames, parts_.autoencoder->name(),
        layout.first_frame_alone ? fmt::format("1 more than a multiple of {}", layout.temporal)
                                 : fmt::format("multiples of {}", layout.temporal)));
  }
  out.schedule =
      request.schedule.value_or(experts_.folder().schedule.value_or(schedulers::ScheduleConfig{}));
  // Where guidance was distilled, the scale is told, and a negative prompt has one of its own.
  const bool distilled = network.guidance_distilled;
  const double negative_scale = request.negative_prompt ? request.true_cfg_scale : 1.0;
  const double scale = distilled ? negative_scale : request.guidance_scale;
  out.settings = {.schedule = schedulers::make_schedule(out.schedule, request.num_inference_steps,
                                                        network.tokens(out.sizes.latents)),
                  .guidance_scale = scale,
                  .guidance_scale_2 = request.guidance_scale_2.value_or(scale),
                  .embedded_guidance = network.takes_guidance ? request.guidance_scale : 0.0,
                  .guidance_rescale = request.guidance_rescale,
                  .two_passes = request.two_passes,
                  .reuse = request.reuse};
  if (out.settings.reuse.magcache) {
    out.settings.reuse.magcache->image_to_video = out.condition == Condition::CHANNELS;
  }
  if (out.settings.reuse.guidance) {
    out.settings.reuse.guidance->height = out.sizes.height;
  }
  out.takes_pooled = network.pooled_dim > 0;
  out.takes_sizes = network.size_ids > 0;
  bool all_guided = true;
  for (const float t : out.settings.schedule.timesteps) {
    const int64_t expert = experts_.at_timestep(t);
    out.experts.insert(expert);
    const bool guided = is_guided(out.settings, expert);
    out.guided |= guided;
    all_guided &= guided;
  }
  check_reuse(out.settings.reuse, all_guided);
  if (observer.note && !out.guided && experts_.size() == 2 && out.settings.guidance_scale_2 > 1.0) {
    observer.note(fmt::format(
        "the low-noise expert's guidance scale {} has no effect: that of the high-noise expert is "
        "{}, and 1 or less turns guidance off for both, as in diffusers",
        out.settings.guidance_scale_2, out.settings.guidance_scale));
  }
  return out;
}

/// Whether the negative prompt is zeros, and not encoded.
static bool has_zero_negative(const GenerateRequest& request, const PipelineFolder& folder) {
  return !request.negative_prompt && folder.zeros_for_no_negative;
}

/// All that are encoded, at once, so that an encoder may take prompts and negative prompt together.
std::vector<encoders::Prompt> Pipeline::texts(const Plan& plan,
                                              const GenerateRequest& request) const {
  std::vector<encoders::Prompt> prompts;
  for (int64_t i = plan.first_prompt; i < plan.first_prompt + plan.prompts; ++i) {
    const auto at = static_cast<size_t>(i);
    prompts.push_back({.text = request.prompts[at]});
    if (!request.prompts_2.empty()) {
      prompts.back().second = request.prompts_2[at];
    }
  }
  if (plan.guided && !has_zero_negative(request, experts_.folder())) {
    prompts.push_back({.text = request.negative_prompt.value_or(""),
                       .second = request.negative_prompt_2,
                       .is_negative = true});
  }
  return prompts;
}

Pipeline::Context Pipeline::encode(const GenerateRequest& request, const Plan& plan,
                                   Timings& timings) const {
  Context out;
  {
    const AddSeconds watch(timings.text);
    encoders::TextStates made =
        parts_.text_encoder->encode(std::span<const encoders::Prompt>(texts(plan, request)));
    const bool zeros = plan.guided && has_zero_negative(request, experts_.folder());
    out.text = zeros ? with_zeros(std::move(made.states)) : std::move(made.states);
    out.pooled = zeros && !made.pooled.bytes.empty() ? with_zeros(std::move(made.pooled))
                                                     : std::move(made.pooled);
  }
  const networks::Sizes& network = experts_.network(0).sizes();
  check(network.pooled_dim == 0 ||
            (!out.pooled.bytes.empty() && out.pooled.shape.dims[1] == network.pooled_dim),
        "[sample] the model wants pooled text of {} numbers, but the text encoder {} makes {}",
        network.pooled_dim, parts_.text_encoder->name(),
        out.pooled.bytes.empty() ? "none" : to_string(out.pooled.shape));
  check(network.text_tokens == 0 || out.text.shape.dims[1] == network.text_tokens,
        "[sample] this model takes {} text tokens, but the text encoder makes {}\n"
        "  max_sequence_length={} is needed",
        network.text_tokens, out.text.shape.dims[1], network.text_tokens);
  if (network.image_dim > 0) {
    const AddSeconds watch(timings.image);
    out.image = encoders::image_tokens(request.images, *parts_.image_encoder);
  }
  return out;
}

std::vector<DenoiseBatch> Pipeline::make_batches(const GenerateRequest& request, const Plan& plan,
                                                 const Context& context,
                                                 const HostArray& condition) {
  HostArray latents =
      request.initial_latents.empty()
          ? initial_noise(request.seed, plan.videos, plan.sizes.latents,
                          request.first_index + plan.first)
          : own_rows(read_latents(request.initial_latents, request.videos(), plan.sizes.latents),
                     plan.first, plan.videos);
  for (float& value : latents.as<float>()) {
    value *= plan.settings.schedule.initial_scale;
  }
  const int64_t negative = plan.prompts;
  std::vector<DenoiseBatch> batches;
  for (const auto& items : batches_of(plan.videos, plan.batch)) {
    const auto count = static_cast<int64_t>(items.size());
    std::vector<int64_t> prompts(items);
    for (int64_t& item : prompts) {
      item = (plan.first + item) / request.num_videos_per_prompt - plan.first_prompt;
    }
    DenoiseBatch batch{.latents = take_rows(latents, items),
                       .text = take_rows(context.text, prompts),
                       .condition_kind = plan.condition,
                       .condition = repeated(condition, count),
                       .image = repeated(context.image, count)};
    const std::vector<int64_t> negatives(items.size(), negative);
    if (plan.guided) {
      batch.negative_text = take_rows(context.text, negatives);
    }
    if (plan.takes_pooled) {
      batch.pooled = take_rows(context.pooled, prompts);
      batch.negative_pooled = plan.guided ? take_rows(context.pooled, negatives) : HostArray();
    }
    if (plan.takes_sizes) {
      const auto rows = [&](const data::PictureSizes& sizes) {
        return repeated(data::size_ids(sizes, plan.sizes.height, plan.sizes.width), count);
      };
      batch.size_ids = rows(request.picture_sizes);
      batch.negative_size_ids =
          rows(request.negative_picture_sizes.value_or(request.picture_sizes));
    }
    batches.push_back(std::move(batch));
  }
  return batches;
}

int64_t Pipeline::free_bytes(const Plan& plan) const {
  // The host holds the noise of all videos, for a while also in batches.
  const int64_t noise = plan.videos * Shape{DType::F32, plan.sizes.latents}.bytes();
  return options_.available_bytes.value_or(available_bytes(programs_->devices(), 2 * noise));
}

/// Throws, where this or another process would, the same in all.
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

bool Pipeline::all_say(bool own) const {
  return options_.agree ? options_.agree(own ? "" : "no").empty() : own;
}

void Pipeline::release_encoders() const {
  parts_.text_encoder->release();
  if (parts_.image_encoder) {
    parts_.image_encoder->release();
  }
  parts_.autoencoder->release();
}

/// Compiles the programs, and asks whether they fit; encoders that an earlier request has left go
/// when they do not. Prompt and negative prompt at once take less time; where only one after the
/// other fits, they go so.
void Pipeline::make_room(Plan& plan, const GenerateRequest& request,
                         const GenerateObserver& observer) {
  // Shapes alone say what a step takes.
  DenoiseBatch batch{.condition_kind = plan.condition};
  const auto batched = [&](Dims dims) {
    dims.insert(dims.begin(), plan.batch);
    return Shape{DType::F32, std::move(dims)};
  };
  batch.latents.shape = batched(plan.sizes.latents);
  batch.text.shape = batched(parts_.text_encoder->shape().dims);
  if (experts_.network(0).sizes().image_dim > 0) {
    Dims tokens = parts_.image_encoder->shape().dims;
    tokens[0] *= request.images.last.bytes.empty() ? 1 : 2;
    batch.image.shape = batched(tokens);
  }
  for (const int64_t expert : plan.experts) {
    StepSpec spec = step_spec(experts_, expert, batch, plan.settings);
    check_contexts(spec);
    if (observer.layout && expert == *plan.experts.begin() && experts_.options().place.active()) {
      observer.layout(contexts_text(spec, experts_.options().place));
    }
    if (programs_->get(spec).report().memory.total() > free_bytes(plan)) {
      plan.encoders_go = true;
      release_encoders();
    }
    const bool has_room = experts_.has_room(expert);
    const auto fits = [&] {
      return all_say(step_fits(*programs_, spec, has_room, free_bytes(plan)));
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
      check_step_fits(*programs_, spec, plan.sizes, parts_.autoencoder->layout(), has_room,
                      free_bytes(plan));
    });
    const int64_t parameters = parameter_bytes(spec.network, spec.options, programs_->devices());
    plan.step_bytes = std::max(plan.step_bytes, programs_->get(spec).report().memory.total() -
                                                    (has_room ? parameters : 0));
    plan.loaded_bytes = std::max(plan.loaded_bytes, has_room ? 0 : parameters);
    if (observer.sharding && expert == *plan.experts.begin() &&
        programs_->devices().placement().active()) {
      observer.sharding(programs_->sharding_report(spec));
    }
  }
}

MemoryUse Pipeline::memory_use(const Plan& plan, const GenerateRequest& request) const {
  const bool on_host = programs_->devices().client().platform_name() == "cpu";
  const Dims& latents = plan.sizes.latents;
  const std::vector<encoders::Prompt> prompts = texts(plan, request);
  MemoryUse out{
      .text = parts_.text_encoder->memory_bytes(std::span<const encoders::Prompt>(prompts)),
      .steps = plan.step_bytes};
  if (request.decodes) {
    out.decode = plan.loaded_bytes + parts_.autoencoder->decode_memory_bytes(latents);
  }
  runtime::give_back_free_memory();  // the compiler's
  out.before = runtime::peak_bytes(programs_->devices());
  out.held = runtime::held_bytes(programs_->devices());
  if (on_host && request.decodes) {
    out.frames = plan.videos * plan.sizes.height * plan.sizes.width * 3 * plan.sizes.num_frames;
  }
  return out;
}

void Pipeline::verify(const GenerateRequest& request, const GenerateObserver& observer) const {
  const Plan plan = this->plan(request, observer);
  if (request.decodes) {
    check_frames_fit(plan.videos, plan.sizes, parts_.autoencoder->layout(),
                     runtime::available_memory_bytes());
  }
}

Generated Pipeline::generate(const GenerateRequest& request, const GenerateObserver& observer) {
  Plan plan = this->plan(request, observer);
  check_together([&] {
    if (request.decodes) {
      check_frames_fit(plan.videos, plan.sizes, parts_.autoencoder->layout(),
                       runtime::available_memory_bytes());
    }
  });
  Generated out{.sizes = plan.sizes,
                .schedule = plan.schedule,
                .condition = plan.condition,
                .images = experts_.network(0).sizes().makes_images};
  {
    // Nothing is loaded before it is known that all of it fits.
    const AddSeconds watch(out.timings.compile);
    make_room(plan, request, observer);
    check_together([&] {
      out.memory = memory_use(plan, request);
      if (request.decodes) {
        check_decode_fits(plan.sizes, out.memory.decode - plan.loaded_bytes, free_bytes(plan));
      }
    });
  }
  if (observer.memory) {
    observer.memory(out.memory);
  }
  Context context;
  HostArray condition;
  check_together([&] {
    context = encode(request, plan, out.timings);
    if (plan.step_bytes > free_bytes(plan)) {
      plan.encoders_go = true;
      release_encoders();
    }
    if (plan.condition != Condition::NONE) {
      const AddSeconds watch(out.timings.image);
      condition = image_condition(plan.condition, request.images, plan.sizes, *parts_.autoencoder);
      if (plan.encoders_go) {
        parts_.autoencoder->release();
      }
    }
  });
  const std::vector<DenoiseBatch> batches = make_batches(request, plan, context, condition);
  if (observer.encoded) {
    observer.encoded(batches);
  }

  const double loaded = experts_.load_seconds();
  const double compiled = programs_->compile_seconds();
  std::vector<HostArray> latents;
  {
    const AddSeconds watch(out.timings.denoise);
    latents = denoise(experts_, *programs_, batches, plan.settings, [&](const DenoiseStep& step) {
      out.steps = step.total;
      out.reused_steps += is_reuse(step.reuse) ? 1 : 0;
      if (observer.step) {
        observer.step(step);
      }
    });
  }
  out.timings.load = experts_.load_seconds() - loaded;
  const double compiled_now = programs_->compile_seconds() - compiled;
  out.timings.compile += compiled_now;
  out.timings.denoise -= out.timings.load + compiled_now;

  const int64_t per_batch = batches.front().latents.shape.dims[0];
  for (int64_t i = 0; i < plan.videos; ++i) {
    const int64_t place = plan.first + i;
    out.videos.push_back({.prompt = request.prompts[place / request.num_videos_per_prompt],
                          .index = request.first_index + place,
                          .latents = row(latents[i / per_batch], i % per_batch)});
  }
  if (observer.denoised) {
    observer.denoised(out.videos);
  }
  if (!request.save_latents.empty() && request.share.count == 1) {
    std::vector<const HostArray*> all;
    for (const GeneratedVideo& video : out.videos) {
      all.push_back(&video.latents);
    }
    sample::save_latents(request.save_latents, all);  // before decoding: they cost the most
  }
  const AddSeconds watch(out.timings.decode);
  if (out.memory.decode - plan.loaded_bytes > free_bytes(plan)) {
    experts_.release();
    runtime::give_back_free_memory();
  }
  for (int64_t i = 0; request.decodes && i < plan.videos; ++i) {
    GeneratedVideo& video = out.videos[i];
    video.frames = decode_frames(*parts_.autoencoder, video.latents, plan.sizes);
    if (observer.decoded) {
      observer.decoded(i + 1, plan.videos);
    }
  }
  out.peak_bytes = runtime::peak_bytes(programs_->devices());
  return out;
}

}  // namespace kinema::sample
