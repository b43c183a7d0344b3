#include "kinema/sample/pipeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/core/finite.h"
#include "kinema/core/stopwatch.h"
#include "kinema/io/safetensors.h"
#include "kinema/runtime/device_memory.h"
#include "kinema/runtime/environment.h"
#include "kinema/sample/latents.h"
#include "kinema/sample/memory.h"
#include "kinema/sample/pipeline_plan.h"

namespace kinema::sample {
namespace {

/// The videos of each batch of `size`; the last batch repeats its last video, so that all batches
/// run the same program.
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

/// The same array for each video of a batch: with a leading axis of `count`.
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

/// Row i of the first axis, without that axis.
HostArray row(const HostArray& x, int64_t i) {
  HostArray out = take_rows(x, {i});
  out.shape.dims.erase(out.shape.dims.begin());
  return out;
}

/// The first rows of each entry, [n, t, d] -> [n, rows, d].
HostArray first_rows(HostArray x, int64_t rows) {
  const Dims& d = x.shape.dims;
  if (rows >= d.at(1)) {
    return x;
  }
  HostArray out(Shape{x.shape.dtype, {d[0], rows, d[2]}});
  const auto each = static_cast<int64_t>(x.bytes.size()) / d[0];
  const auto kept = static_cast<int64_t>(out.bytes.size()) / d[0];
  for (int64_t i = 0; i < d[0]; ++i) {
    std::copy_n(x.bytes.begin() + i * each, kept, out.bytes.begin() + i * kept);
  }
  return out;
}

/// Appends an entry of zeros to the first axis.
HostArray with_zeros(HostArray x) {
  const size_t row = x.bytes.size() / static_cast<size_t>(x.shape.dims[0]);
  ++x.shape.dims[0];
  x.bytes.resize(x.bytes.size() + row);
  return x;
}

/// Decodes the video in parts, as bytes: the f32 frames are never in memory completely.
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

Pipeline::Pipeline(const runtime::Devices& devices, PipelineFolder folder, PipelineParts parts,
                   PipelineOptions options)
    : experts_(devices, std::move(folder), options.model, options.shared_transformers),
      programs_(options.programs ? options.programs
                                 : std::make_shared<StepPrograms>(devices, options.program)),
      parts_(std::move(parts)),
      options_(std::move(options)) {
  const networks::Sizes& network = experts_.network(0).sizes();
  const int64_t z = parts_.autoencoder->layout().channels;
  check_channels(network, parts_.autoencoder->layout(), parts_.autoencoder->name());
  if (network.makes_images) {
    return;
  }
  const std::string& name = experts_.folder().class_name;
  const bool takes_image = network.in_channels != z || experts_.folder().expand_timesteps;
  check(name.empty() || (experts_.folder().of_images() ? takes_image : network.in_channels == z),
        "[sample] {} is a {}, but its transformer takes {} channels and makes {}: model_index.json "
        "does not fit",
        experts_.folder().folder.string(), name, network.in_channels, network.out_channels);
}

Pipeline::Context Pipeline::encode(const GenerateRequest& request, const Plan& plan,
                                   Timings& timings) const {
  Context out;
  {
    const AddSeconds watch(timings.text);
    encoders::TextStates made =
        parts_.text_encoder->encode(std::span<const encoders::Prompt>(plan.texts));
    check(all_finite(made.states) && all_finite(made.pooled),
          "[sample] the output of the text encoder {} is not finite: its weights are not, or its "
          "dtype "
          "has too small a range\n  `kinema inspect --check` names such weights; "
          "try text_encoder_dtype=float32",
          parts_.text_encoder->name());
    made.states = first_rows(std::move(made.states), plan.text_rows);
    const bool zeros = plan.zero_negative;
    out.text = zeros ? with_zeros(std::move(made.states)) : std::move(made.states);
    out.pooled = zeros && !made.pooled.bytes.empty() ? with_zeros(std::move(made.pooled))
                                                     : std::move(made.pooled);
  }
  const networks::Sizes& network = experts_.network(0).sizes();
  check(network.pooled_dim == 0 ||
            (!out.pooled.bytes.empty() && out.pooled.shape.dims[1] == network.pooled_dim),
        "[sample] the model needs pooled text of {} numbers, but the text encoder {} returns {}",
        network.pooled_dim, parts_.text_encoder->name(),
        out.pooled.bytes.empty() ? "none" : to_string(out.pooled.shape));
  check(network.text_tokens == 0 || out.text.shape.dims[1] == network.text_tokens,
        "[sample] this model takes {} text tokens, but the text encoder returns {}\n"
        "  set max_sequence_length={}",
        network.text_tokens, out.text.shape.dims[1], network.text_tokens);
  if (network.image_dim > 0) {
    const AddSeconds watch(timings.image);
    // Wan Fun without a first frame: zeros in place of its tokens.
    out.image = request.files.images.first.bytes.empty()
                    ? HostArray(parts_.image_encoder->shape())
                    : encoders::image_tokens(request.files.images, *parts_.image_encoder);
  }
  return out;
}

StartNoise Pipeline::noise_of(const GenerateRequest& request, const Plan& plan) {
  return {.seed = request.seed,
          .first_index = request.first_index + plan.first,
          .first = plan.first,
          .videos = plan.videos,
          .all_videos = request.videos(),
          .file = request.initial_latents};
}

Start Pipeline::start(const GenerateRequest& request, const Plan& plan, int64_t segment) const {
  const StartNoise noise = noise_of(request, plan);
  if (request.start.is_given()) {
    return make_start(request.start, plan.settings.schedule, plan.sizes, *parts_.autoencoder, noise,
                      plan.filled());
  }
  const std::string name =
      segment == 0 ? "noise" : fmt::format("segment{}.initial_latents", segment);
  Start out{.latents = noise.draw(name.c_str(), plan.sizes.denoised())};
  for (float& value : out.latents.as<float>()) {
    value *= plan.settings.schedule.initial_scale;
  }
  return out;
}

std::vector<HostArray> Pipeline::make_inputs(const GenerateRequest& request, const Plan& plan,
                                             const Start& start, const SegmentPart& segment) const {
  std::vector<HostArray> out;
  for (const StepInput& each : plan.inputs) {
    out.push_back(make_input(each, request.files, start, plan.sizes, *parts_.autoencoder,
                             noise_of(request, plan), segment));
  }
  return out;
}

std::vector<DenoiseBatch> Pipeline::make_batches(const GenerateRequest& request, const Plan& plan,
                                                 const Context& context, const Start& start,
                                                 const std::vector<HostArray>& inputs) {
  const auto rows_of = [](const HostArray& all, const std::vector<int64_t>& items) {
    return all.bytes.empty() ? HostArray() : take_rows(all, items);
  };
  const int64_t steps = plan.settings.schedule.size();
  std::vector<DenoiseBatch> batches;
  for (const auto& items : batches_of(plan.videos, plan.batch)) {
    const auto count = static_cast<int64_t>(items.size());
    std::vector<int64_t> prompts(items);
    for (int64_t& item : prompts) {
      item = (plan.first + item) / request.num_videos_per_prompt - plan.first_prompt;
    }
    DenoiseBatch batch{.latents = take_rows(start.latents, items),
                       .clean = rows_of(start.clean, items),
                       .clean_noise = rows_of(start.noise, items),
                       .mask = start.mask,
                       .image = repeated(context.image, count)};
    for (size_t i = 0; i < inputs.size(); ++i) {
      const bool of_all = inputs[i].shape.dims[0] == 1;
      batch.inputs.push_back(
          {.step = plan.inputs[i],
           .value = take_rows(inputs[i], of_all ? std::vector<int64_t>(items.size(), 0) : items)});
    }
    batch.indices = items;
    for (int64_t& index : batch.indices) {
      index += request.first_index + plan.first;
    }
    std::vector<int64_t> before;
    std::vector<int64_t> before_negative;
    for (int64_t step = 0; step < steps; ++step) {
      std::vector<int64_t> rows;
      for (const int64_t prompt : prompts) {
        rows.push_back(plan.prompt_steps[static_cast<size_t>(prompt)].at(step));
      }
      std::vector<int64_t> negatives;
      for (size_t i = 0; plan.guided && i < items.size(); ++i) {
        const auto own = static_cast<size_t>(plan.negative_steps.size() > 1 ? prompts[i] : 0);
        negatives.push_back(plan.negative_steps[own].at(step));
      }
      if (rows == before && negatives == before_negative) {
        continue;
      }
      DenoiseText text{.first_step = step, .text = take_rows(context.text, rows)};
      if (plan.guided) {
        text.negative_text = take_rows(context.text, negatives);
      }
      if (plan.needs_pooled) {
        text.pooled = take_rows(context.pooled, rows);
        text.negative_pooled = plan.guided ? take_rows(context.pooled, negatives) : HostArray();
      }
      if (step == 0) {
        batch.text = std::move(text.text);
        batch.negative_text = std::move(text.negative_text);
        batch.pooled = std::move(text.pooled);
        batch.negative_pooled = std::move(text.negative_pooled);
      } else {
        batch.later_texts.push_back(std::move(text));
      }
      before = std::move(rows);
      before_negative = negatives;
    }
    if (plan.needs_size_ids) {
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

namespace {

/// Latents [c, references + f, h, w] without the frames in front.
HostArray without_references(const HostArray& latents, int64_t references) {
  Shape shape = latents.shape;
  const int64_t frame = shape.dims[2] * shape.dims[3] * static_cast<int64_t>(sizeof(float));
  const int64_t all = shape.dims[1];
  shape.dims[1] -= references;
  HostArray out(shape);
  auto to = out.bytes.begin();
  for (int64_t c = 0; c < shape.dims[0]; ++c) {
    to = std::copy_n(latents.bytes.begin() + (c * all + references) * frame, shape.dims[1] * frame,
                     to);
  }
  return out;
}

/// Latents [c, f, h, w] after those of earlier segments, along the frames.
void append_frames(HostArray& all, const HostArray& more) {
  if (all.bytes.empty()) {
    all = more;
    return;
  }
  const Dims& d = more.shape.dims;
  Shape shape = all.shape;
  const int64_t before = shape.bytes() / shape.dims[0];
  const int64_t own = more.shape.bytes() / d[0];
  shape.dims[1] += d[1];
  HostArray out(shape);
  auto to = out.bytes.begin();
  for (int64_t c = 0; c < d[0]; ++c) {
    to = std::copy_n(all.bytes.begin() + c * before, before, to);
    to = std::copy_n(more.bytes.begin() + c * own, own, to);
  }
  all = std::move(out);
}

/// The request's videos of this process, without latents and frames.
std::vector<GeneratedVideo> videos_of(const GenerateRequest& request, int64_t first,
                                      int64_t count) {
  std::vector<GeneratedVideo> out;
  for (int64_t place = first; place < first + count; ++place) {
    out.push_back({.prompt = request.prompts[place / request.num_videos_per_prompt],
                   .index = request.first_index + place,
                   .latents = {},
                   .frames = {}});
  }
  return out;
}

void save_all_latents(const std::filesystem::path& path, std::span<const GeneratedVideo> videos) {
  std::vector<const HostArray*> all;
  for (const GeneratedVideo& video : videos) {
    all.push_back(&video.latents);
  }
  save_latents(path, all);
}

/// Subtracts loading and compiling from the time of denoising, in which they happened.
void take_out(double load, double compile, Timings& timings) {
  timings.load = load;
  timings.compile += compile;
  timings.denoise -= load + compile;
}

/// Counts the steps in `out` and passes them on, as those of all segments.
std::function<void(const DenoiseStep&)> counted_steps(const GenerateObserver& observer,
                                                      int64_t segment, int64_t segments,
                                                      Generated& out) {
  return [&observer, segment, segments, &out](const DenoiseStep& step) {
    out.steps = step.total * segments;
    out.reused_steps += is_reuse(step.reuse) ? 1 : 0;
    if (observer.step) {
      DenoiseStep own = step;
      own.done += segment * step.total;
      own.total = out.steps;
      observer.step(own);
    }
  };
}

}  // namespace

std::vector<HostArray> Pipeline::make_segment(const GenerateRequest& request,
                                              const GenerateObserver& observer, const Plan& plan,
                                              const Context& context, const SegmentPart& segment,
                                              Generated& out) {
  Start start;
  std::vector<HostArray> inputs;
  check_together([&] {
    const AddSeconds watch(out.timings.image);
    start = this->start(request, plan, segment.index);
    inputs = make_inputs(request, plan, start, segment);
    if (plan.release_encoders_first) {
      parts_.autoencoder->release();
    }
  });
  const std::vector<DenoiseBatch> batches = make_batches(request, plan, context, start, inputs);
  if (observer.encoded) {
    observer.encoded(batches, plan.segments.frames);
  }
  const double loaded = experts_.load_seconds();
  const double compiled = programs_->compile_seconds();
  std::vector<HostArray> latents;
  {
    const AddSeconds watch(out.timings.denoise);
    experts_.set_together([this](const std::function<void()>& work) { check_together(work); });
    latents = denoise(experts_, *programs_, batches, plan.settings,
                      counted_steps(observer, segment.index, plan.segments.count, out));
  }
  take_out(experts_.load_seconds() - loaded, programs_->compile_seconds() - compiled, out.timings);
  std::vector<HostArray> result;
  const int64_t per_batch = batches.front().latents.shape.dims[0];
  for (int64_t i = 0; i < plan.videos; ++i) {
    result.push_back(without_references(
        row(latents[static_cast<size_t>(i / per_batch)], i % per_batch), plan.sizes.references));
  }
  return result;
}

void Pipeline::decode(const GenerateRequest& request, const Plan& plan,
                      GeneratedVideo& video) const {
  video.frames = decode_frames(*parts_.autoencoder, video.latents, plan.sizes);
  if (request.start.crop.is_given()) {
    HostArray& frames = video.frames;  // one
    frames.shape.dims.erase(frames.shape.dims.begin());
    frames = put_back(request.start.crop, frames);
    frames.shape.dims.insert(frames.shape.dims.begin(), 1);
  } else if (request.start.has_mask() && request.start.returns_kept) {
    return_kept_pixels(request.start, plan.sizes, video.frames);
  }
}

Generated Pipeline::generate(const GenerateRequest& request, const GenerateObserver& observer) {
  Plan plan = this->plan(request, observer);
  check_together([&] {
    if (request.decodes) {
      check_frames_fit(plan.videos, plan.whole_sizes(), parts_.autoencoder->layout(),
                       runtime::available_memory_bytes());
    }
  });
  Generated out{.sizes = plan.whole_sizes(), .schedule = plan.schedule};
  for (const StepInput& each : plan.inputs) {
    out.inputs.push_back(each.input);
  }
  if (schedulers::is_flow(plan.schedule)) {
    out.flow_shift =
        plan.schedule.shift_of(experts_.network(0).sizes().tokens(plan.sizes.denoised()));
  }
  {
    // Nothing is loaded before it is known that everything fits.
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
  check_together([&] {
    context = encode(request, plan, out.timings);
    plan.release_encoders_first |= plan.step_bytes > free_bytes(plan);
    if (plan.release_encoders_first) {
      release_encoders();
    }
  });
  out.videos = videos_of(request, plan.first, plan.videos);
  const bool in_parts = plan.segments.shared > 0;
  std::vector<SegmentFrames> decoded;  // of each video that is made in parts
  for (int64_t i = 0; in_parts && i < plan.videos; ++i) {
    decoded.emplace_back(plan.segments, plan.sizes);
  }
  const auto make_room_to_decode = [&] {
    if (out.memory.decode - plan.loaded_bytes > free_bytes(plan)) {
      experts_.release();
      runtime::release_free_memory();
    }
  };
  for (int64_t segment = 0; segment < plan.segments.count; ++segment) {
    SegmentPart part{.index = segment, .first_frame = plan.segments.first_frame(segment)};
    for (size_t i = 0; segment > 0 && i < decoded.size(); ++i) {
      part.before.push_back(decoded[i].last());
    }
    const std::vector<HostArray> latents =
        make_segment(request, observer, plan, context, part, out);
    const AddSeconds watch(out.timings.decode);
    if (in_parts && (request.decodes || segment + 1 < plan.segments.count)) {
      make_room_to_decode();
    }
    for (size_t i = 0; i < latents.size(); ++i) {
      append_frames(out.videos[i].latents, latents[i]);
      if (in_parts && (request.decodes || segment + 1 < plan.segments.count)) {
        decoded[i].add(*parts_.autoencoder, latents[i]);
      }
    }
  }
  if (observer.denoised) {
    observer.denoised(out.videos);
  }
  if (!request.save_latents.empty() && request.share.count == 1) {
    save_all_latents(request.save_latents,
                     out.videos);  // before decoding: the latents cost the most time
  }
  const AddSeconds watch(out.timings.decode);
  if (!in_parts) {
    make_room_to_decode();
  }
  for (int64_t i = 0; request.decodes && i < plan.videos; ++i) {
    GeneratedVideo& video = out.videos[static_cast<size_t>(i)];
    if (in_parts) {
      video.frames = decoded[static_cast<size_t>(i)].take();
    } else {
      decode(request, plan, video);
    }
    if (observer.decoded) {
      observer.decoded(i + 1, plan.videos);
    }
  }
  out.peak_bytes = runtime::peak_bytes(programs_->devices());
  return out;
}

}  // namespace kinema::sample
