#include "kinema/cli/training.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "kinema/cli/clip_source.h"
#include "kinema/cli/commands.h"
#include "kinema/cli/device.h"
#include "kinema/cli/resume.h"
#include "kinema/cli/waiting.h"
#include "kinema/cli/wiring.h"
#include "kinema/core/error.h"
#include "kinema/io/json.h"
#include "kinema/mesh/batch.h"
#include "kinema/planning/target.h"
#include "kinema/training/flops.h"
#include "kinema/training/memory.h"
#include "kinema/training/stop_signal.h"
#include "kinema/training/wan_model.h"
#include "kinema/weights/config.h"
#include "kinema/weights/weights.h"

namespace kinema::cli {
namespace {

namespace fs = std::filesystem;

/// `samples` make a step.
training::Schedule schedule_of(const config::Config& config, int64_t samples) {
  const config::OptimizerConfig& o = config.optimizer;
  return {.learning_rate = o.learning_rate * (o.scale_lr ? static_cast<double>(samples) : 1.0),
          .steps = schedule_steps(config),
          .warmup_fraction = o.warmup_steps_fraction,
          .decay_fraction = o.lr_decay_fraction,
          .final_fraction = o.final_lr_fraction};
}

/// The empty caption's text states [t, d], which caption dropout trains with; `text` is that of a
/// batch, [b, t, d].
std::optional<HostArray> empty_text(const config::Config& config, const Shape& text,
                                    const pjrt::Client& client) {
  if (config.optimizer.caption_dropout <= 0) {
    return std::nullopt;
  }
  const HostArray states = caption_states(config, "", text.dims[2], client);
  const Shape wanted{text.dtype, {text.dims[1], text.dims[2]}};
  check(states.shape.dims == wanted.dims,
        "[train] caption_dropout: the empty caption's text states are {}, those of the data {}\n  "
        "max_sequence_length must be that of the data, or caption_dropout=0",
        to_string(states.shape), to_string(wanted));
  return convert(states, wanted.dtype);
}

/// The file that says how the named pipeline samples; empty where there is none.
std::string scheduler_config_of(const config::Config& config) {
  const std::optional<sample::PipelineFolder> pipeline = pipeline_index(config);
  return pipeline && pipeline->schedule
             ? io::Json::read(pipeline->folder / sample::kSchedulerConfig).dump() + "\n"
             : "";
}

int64_t count(std::span<const nn::ParamSpec> specs) {
  int64_t sum = 0;
  for (const nn::ParamSpec& spec : specs) {
    sum += spec.shape.elements();
  }
  return sum;
}

/// The dims of a batch with another number of samples.
Dims batched_like(const Shape& shape, int64_t batch) {
  Dims dims = shape.dims;
  dims[0] = batch;
  return dims;
}

/// max_train_steps, or the steps that show each of `samples` num_train_epochs times.
int64_t steps_of(const config::OptimizerConfig& config, int64_t samples, int64_t batch) {
  if (config.max_train_steps > 0) {
    return config.max_train_steps;
  }
  constexpr int64_t kMost = int64_t{1} << 40;
  check(samples < kMost && config.num_train_epochs < kMost / samples,
        "[train] max_train_steps is -1, and the data has no end that num_train_epochs could count");
  return (config.num_train_epochs * samples + batch - 1) / batch;
}

/// `specs` in the dtypes that the state is kept in.
training::State first_state(const config::Config& config, const fs::path& pretrained,
                            std::span<const nn::ParamSpec> specs, bool ema,
                            const runtime::Devices& devices) {
  if (!pretrained.empty()) {
    weights::check_folder(pretrained, specs);
  }
  std::vector<runtime::Array> params =
      pretrained.empty()
          ? weights::initialise(specs, static_cast<uint64_t>(config.run.seed), devices)
          : weights::load(pretrained, specs, devices);
  return training::fresh_state(std::move(params), specs, ema, devices);
}

/// What a trainer is made of beside its state.
struct TrainerParts {
  const runtime::Devices& devices;
  std::span<const nn::ParamSpec> specs;
  const wan::TransformerConfig& model;
  wan::ModelOptions options;
  std::span<const training::BatchShapes> batches;
  training::StepOptions step;
  training::TrainerOptions trainer;
};

/// Compiled for every shape, without a state.
std::unique_ptr<training::Trainer> compiled(const TrainerParts& parts) {
  const training::Model network = training::wan_model(parts.model, parts.options);
  auto out =
      std::make_unique<training::Trainer>(parts.devices, parts.specs, network, parts.batches[0],
                                          parts.step, training::State(), parts.trainer);
  for (const training::BatchShapes& batch : parts.batches.subspan(1)) {
    if (training::StopSignal::requested()) {
      break;
    }
    out->add_shapes(network, batch);
  }
  return out;
}

/// Ways to take less memory, those that change no loss first. Each is compiled when it is asked.
std::vector<training::Alternative> alternatives(const config::Config& config,
                                                const TrainerParts& parts) {
  std::vector<training::Alternative> out;
  std::string change;
  TrainerParts now = parts;
  now.trainer.program.saved.clear();
  now.trainer.program.dump.clear();
  const auto add = [&](const std::string& key) {
    change += (change.empty() ? "" : " ") + key;
    out.push_back({change, [now] { return compiled(now)->step_bytes(); }});
  };
  if (parts.options.remat.kind != RematPolicy::Kind::FULL) {
    now.options.remat = {.kind = RematPolicy::Kind::FULL};
    add("remat_policy=FULL");
  }
  const double samples = config.optimizer.per_device_batch_size;
  if (config.optimizer.global_batch_size <= 0 && samples >= 2 && std::fmod(samples, 2) == 0) {
    now.step.accumulation *= 2;
    add(fmt::format("per_device_batch_size={} gradient_accumulation_steps={}", samples / 2,
                    now.step.accumulation));
  }
  if (now.step.state == training::StateDType::F32 && now.options.weights_dtype != DType::F32) {
    now.step.state = training::StateDType::WEIGHTS;
    add("train_state_dtype=weights_dtype");
  }
  return out;
}

/// A state of two bytes a number.
std::vector<training::Alternative> smaller_state(std::vector<nn::ParamSpec> specs, bool average,
                                                 const mesh::Placement& place) {
  for (nn::ParamSpec& spec : specs) {
    spec.shape.dtype = DType::BF16;
  }
  const int64_t bytes = training::state_bytes(training::state_parts(specs, average), place);
  return {{"weights_dtype=bfloat16 train_state_dtype=weights_dtype", [bytes] { return bytes; }}};
}

/// Those of timesteps_list that are trained.
std::vector<int64_t> trained_timesteps(const config::Config& config, const Expert& expert) {
  std::vector<int64_t> out;
  for (const int64_t t : config.data.timesteps_list) {
    const auto value = static_cast<double>(t);
    if (value >= expert.min_timestep && value <= expert.max_timestep) {
      out.push_back(t);
    }
  }
  return out;
}

training::EvaluationOptions evaluation_options(const config::Config& config, const Expert& expert) {
  return {.timesteps = trained_timesteps(config, expert),
          .samples = config.data.num_eval_samples,
          .most_of_a_timestep = config.run.eval_max_number_of_samples_in_bucket,
          .seed = static_cast<uint64_t>(config.run.seed),
          .program = program_options(config)};
}

/// When the run saves; a run of epochs, whose steps are not known yet, once.
training::SavedSteps saved_steps(const config::Config& config, const Start& start) {
  const bool is_counted = config.optimizer.max_train_steps > 0;
  return {.first = start.saved.step,
          .last = is_counted ? config.optimizer.max_train_steps : start.saved.step + 1,
          .every = config.run.checkpoint_every,
          .at_end = config.run.save_final_checkpoint};
}

/// Evaluates `eval_source` by the program of one batch that a step is given, without accumulation.
void add_evaluation(const config::Config& config, std::span<const nn::ParamSpec> specs,
                    int64_t batch, const runtime::Devices& devices, Training& out) {
  const training::BatchShapes shapes = batch_shapes(out.eval_source->at(0), out.model, batch);
  const auto is_like = [&](const training::BatchShapes& training) {
    return shapes.latents.dims == batched_like(training.latents, batch) &&
           shapes.text.dims == batched_like(training.text, batch);
  };
  check(std::ranges::any_of(out.batches, is_like),
        "[evaluation] the samples of {} are {} with text {}, those of the training {} with {}{}",
        config.run.eval_data_dir, to_string(shapes.latents), to_string(shapes.text),
        to_string(out.batches[0].latents), to_string(out.batches[0].text),
        out.batches.size() > 1 ? " or another bucket's" : "");
  wan::ModelOptions options = out.options;
  options.dropout = 0;
  options.remat.kind = RematPolicy::Kind::NONE;
  training::StepOptions step = step_options(config, out.expert);
  step.batch_axes = mesh::batch_axes(devices.placement(), config.parallel.data_sharding, batch);
  out.evaluator =
      std::make_unique<training::Evaluator>(devices, specs, training::wan_model(out.model, options),
                                            shapes, step, evaluation_options(config, out.expert));
}

}  // namespace

training::StepOptions step_options(const config::Config& config, const Expert& expert) {
  const config::OptimizerConfig& o = config.optimizer;
  training::StepOptions out;
  out.adamw.b1 = o.adam_b1;
  out.adamw.b2 = o.adam_b2;
  out.adamw.eps = o.adam_eps;
  out.adamw.weight_decay = o.adam_weight_decay;
  out.adamw.decay_min_rank = o.weight_decay_min_rank;
  if (o.opt_enable_grad_clipping) {
    out.adamw.max_value = o.max_grad_value;
  }
  if (o.opt_enable_grad_global_norm_clipping) {
    out.adamw.max_norm = o.max_grad_norm;
  }
  out.objective.flow.shift = o.training_shift;
  out.objective.weigh = !o.disable_training_weights;
  out.objective.stratified = o.stratified_timesteps;
  out.objective.caption_dropout = o.caption_dropout;
  out.objective.min_timestep = expert.min_timestep;
  out.objective.max_timestep = expert.max_timestep;
  out.objective.first_frame =
      config.model.model_type == "TI2V" ? o.first_frame_conditioning_p : 0.0;
  out.accumulation = o.gradient_accumulation_steps;
  out.ema_decay = o.ema_decay;
  out.state = o.train_state_dtype == "weights_dtype" ? training::StateDType::WEIGHTS
                                                     : training::StateDType::F32;
  return out;
}

Training prepare_training(config::Loaded& loaded, const pjrt::Client& client, const fs::path& run,
                          const Start& start, training::StoredCheckpoints* stored) {
  const config::Config& config = loaded.config;
  Training out;
  out.run = run;
  out.seed = config.run.seed;
  out.reuse_batch = config.data.reuse_example_batch;
  out.save_optimizer = config.run.save_optimizer;
  out.in_background = config.run.background_checkpoints;
  out.debug_nans = config.runtime.debug_nans;
  out.options = model_options(config);
  out.stored = stored;
  // Those that are sent to a store go from here when they are there.
  const training::Keep keep = keep_of(loaded, start);
  out.checkpoints = std::make_unique<training::CheckpointFolder>(
      checkpoints_folder(config, run), stored == nullptr ? keep : training::Keep{});
  out.writer = std::make_unique<training::Background>();
  out.checkpoints->clean();

  const mesh::Placement asked = placement(config, client);
  const config::OptimizerConfig& o = config.optimizer;
  const config::BatchSizes sizes = batch_sizes(config, asked.devices());
  out.options.place = asked.for_samples(sizes.train);
  out.batch_text = batch_text(config, asked, sizes.train);
  const mesh::Placement& place = out.options.place;
  const runtime::Devices devices(client, place);
  mesh::check_batch(place, sizes.train, o.global_batch_size > 0 ? 0 : o.per_device_batch_size);
  const int64_t batch = sizes.train * o.gradient_accumulation_steps;
  out.expert = trained_expert(loaded);
  out.pretrained = pretrained_transformer(config, out.expert.part());
  out.model =
      out.pretrained.empty() ? scratch_config(loaded) : weights::read_config(out.pretrained);
  for (const std::string& line : check_model_type(config, out.model)) {
    warn(line);
  }
  wan::check_divides(out.model, place);
  const std::vector<nn::ParamSpec> specs =
      wan::parameters(out.model, out.options, init_options(config));
  out.parameters = count(specs);
  out.scheduler_config = scheduler_config_of(config);
  config::Config resolved = resolved_config(config, out.model, out.expert, sizes.train);
  if (start.resumes()) {
    config::check_matches(start.saved.settings, record_of(resolved), start.folder);
  }
  training::StepOptions step = step_options(config, out.expert);
  const bool ema = step.ema_decay > 0;
  const std::vector<nn::ParamSpec> kept = training::state_specs(specs, step.state);
  const training::StateParts<nn::ParamSpec> state = training::state_parts(kept, ema);
  out.room = checkpoint_room(out.checkpoints->path(),
                             training::checkpoint_bytes(state, config.run.save_optimizer),
                             saved_steps(config, start), keep);
  for (const std::string& line : check_room(out.room)) {
    warn(line);
  }
  // What cannot fit at all is told before clips are encoded.
  training::check_fits("the parameters with the optimizer's state",
                       training::state_bytes(state, place), devices,
                       smaller_state(specs, ema, place));

  const bool videos_alone =
      config.run.enable_generate_video_for_eval && config.run.eval_data_dir.empty();
  const bool evaluates = config.run.eval_every > 0 && !videos_alone;
  {
    // Before the state is there: encoders take memory too. The few samples of an evaluation first,
    // so that one that cannot work is known before all the others are encoded.
    const auto span = out.timings.measure("opening data");
    if (evaluates) {
      out.eval_source = make_eval_source(config, out.model, sizes.train, client);
    }
    if (out.eval_source) {
      training::check_evaluation(evaluation_options(config, out.expert), step.objective,
                                 *out.eval_source);
    }
    if (!evaluates || out.eval_source) {
      out.source = make_source(config, out.model, batch, client);
    }
    if (!out.source) {
      return out;  // told to stop before there was data
    }
  }
  loaded.config.optimizer.max_train_steps = steps_of(o, out.source->size(), batch);
  resolved.optimizer.max_train_steps = o.max_train_steps;
  resolve_schedule(resolved, start);
  out.schedule = schedule_of(resolved, batch);
  check_rate(out.schedule, start, o.max_train_steps);
  out.settings = record_of(resolved);
  out.notes = resume_lines(start, resolved);
  for (const data::Sample& sample : out.source->examples()) {
    out.batches.push_back(batch_shapes(sample, out.model, batch));
  }
  check(out.batches.size() == 1 || config.run.compiled_step.empty(),
        "[train] compiled_step is one program, but the data has {} sizes", out.batches.size());
  step.batch_axes = mesh::batch_axes(place, config.parallel.data_sharding, batch);
  if (start.resumes()) {
    out.first_step = start.saved.step;
    out.first_position = start.saved.data_position;
    out.resumed = start.folder;
  }
  std::optional<training::Timings::Span> span(std::in_place, out.timings, "compiling");
  for (const training::BatchShapes& shapes : out.batches) {
    const Dims& latents = shapes.latents.dims;
    out.tflops.push_back(training::training_tflops(
        out.model, {latents[1], latents[2], latents[3], latents[4]}, shapes.text.dims[1],
        static_cast<double>(batch) / static_cast<double>(devices.count())));
  }
  constexpr double kTera = 1e12;
  out.peak_tflops = planning::peak_flops(devices[0].description().kind) / kTera;
  runtime::ProgramOptions program = step_program_options(config);
  program.trace_kernels = config.run.enable_profiler;
  const TrainerParts parts{
      .devices = devices,
      .specs = specs,
      .model = out.model,
      .options = out.options,
      .batches = out.batches,
      .step = step,
      .trainer = {.seed = static_cast<uint64_t>(config.run.seed),
                  .empty_text = empty_text(config, out.batches[0].text, client),
                  .program = program}};
  out.trainer = compiled(parts);
  if (training::StopSignal::requested()) {
    return out;
  }
  training::check_fits("a step with its state", out.trainer->step_bytes(), devices,
                       alternatives(config, parts));
  out.memory = training::memory_use(*out.trainer, devices, config.data.prefetch_batches);
  span.emplace(out.timings, "loading weights");
  {
    const Waiting waiting("loading the weights");
    out.trainer->set_state(start.resumes()
                               ? training::load_state(start.folder, kept, ema, devices)
                               : first_state(config, out.pretrained, kept, ema, devices));
  }
  if (out.eval_source) {
    add_evaluation(config, specs, sizes.train, devices, out);
  }
  span.reset();
  data::PrefetchOptions ahead;
  ahead.batch_size = batch;
  ahead.start = out.first_position;
  ahead.threads = static_cast<int>(config.data.decode_threads);
  ahead.depth = config.data.prefetch_batches;
  out.prefetcher = std::make_unique<data::Prefetcher>(*out.source, ahead);
  return out;
}

}  // namespace kinema::cli
