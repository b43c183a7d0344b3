#include "kinema/runs/training.h"

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <memory>

#include "kinema/core/error.h"
#include "kinema/io/json.h"
#include "kinema/networks/open.h"
#include "kinema/planning/target.h"
#include "kinema/runs/clip_source.h"
#include "kinema/runs/compiled_trainer.h"
#include "kinema/runs/continued_run.h"
#include "kinema/runs/data_sources.h"
#include "kinema/runs/device.h"
#include "kinema/runs/encoders.h"
#include "kinema/runs/generation.h"
#include "kinema/runs/initial_state.h"
#include "kinema/runs/kernel_check.h"
#include "kinema/runs/memory_advice.h"
#include "kinema/runs/missing_features.h"
#include "kinema/runs/model_places.h"
#include "kinema/runs/model_schedule.h"
#include "kinema/runs/model_to_use.h"
#include "kinema/runs/network.h"
#include "kinema/runs/pictures.h"
#include "kinema/runs/resume.h"
#include "kinema/runs/run_evaluation.h"
#include "kinema/runs/shared_start.h"
#include "kinema/runs/two_experts.h"
#include "kinema/training/flops.h"
#include "kinema/weights/weights.h"

namespace kinema::runs {
namespace {

namespace fs = std::filesystem;

/// `samples` make a step.
training::Schedule schedule_of(const config::Config& config, int64_t samples) {
  const config::OptimizerConfig& o = config.optimizer;
  return {.learning_rate = o.learning_rate * (o.scale_lr ? static_cast<double>(samples) : 1.0),
          .steps = schedule_steps(config),
          .warmup_fraction = o.warmup_steps_fraction,
          .decay_fraction = o.lr_decay_fraction,
          .final_fraction = o.final_lr_fraction,
          .fall = o.lr_schedule == config::LrSchedule::COSINE ? training::Schedule::Fall::COSINE
                                                              : training::Schedule::Fall::LINE};
}

/// What caption dropout trains with: the empty caption's text states [t, d], pooled [p] where a
/// batch has them.
void add_empty_text(const config::Config& config, const networks::Sizes& model,
                    const training::BatchShapes& batch, const pjrt::Client& client, const Job& job,
                    training::TrainerOptions& out) {
  if (config.optimizer.caption_dropout <= 0) {
    return;
  }
  const encoders::TextStates text = caption_states(config, "", text_widths(model), client, job);
  const Dims wanted{batch.text.dims[1], batch.text.dims[2]};
  check(text.states.shape.dims == wanted,
        "[train] caption_dropout: the empty caption's text states are {}, those of the data {}\n  "
        "max_sequence_length must be that of the data, or caption_dropout=0",
        to_string(text.states.shape), to_string(wanted));
  out.empty_text = convert(text.states, batch.text.dtype);
  if (batch.pooled) {
    out.empty_pooled = convert(text.pooled, batch.pooled->dtype);
  }
}

/// The file that says how what is trained is sampled: the pretrained model's; without one, of a
/// diffusion its own. Empty where neither is.
std::string scheduler_config_of(const config::Config& config, const networks::Network& network,
                                const training::ObjectiveOptions& objective) {
  const ScheduleFile file = schedule_file_of(config);
  if (file.path.empty() && !objective.diffusion) {
    return "";
  }
  io::Json out = read_model_schedule(file, trained_transformer(config), network).file;
  if (objective.diffusion) {
    out.set("prediction_type", schedulers::name_of(objective.diffusion->diffusion.prediction_type));
  }
  return out.dump() + "\n";
}

int64_t count(std::span<const nn::ParamSpec> specs) {
  int64_t sum = 0;
  for (const nn::ParamSpec& spec : specs) {
    sum += spec.shape.elements();
  }
  return sum;
}

/// A network's own, without adapters and the scales of codes.
std::vector<nn::ParamSpec> own_of(std::span<const nn::ParamSpec> specs) {
  std::vector<nn::ParamSpec> own(specs.begin(), specs.end());
  std::erase_if(
      own, [](const nn::ParamSpec& spec) { return spec.is_low_rank() || spec.is_stored_scale(); });
  return own;
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

/// When the run saves; a run of epochs, whose steps are not known yet, once.
checkpoints::SavedSteps saved_steps(const config::Config& config, const Start& start) {
  const bool is_counted = config.optimizer.max_train_steps > 0;
  return {.first = start.saved.step,
          .last = is_counted ? config.optimizer.max_train_steps : start.saved.step + 1,
          .every = config.run.checkpoint_every,
          .at_end = config.run.save_final_checkpoint};
}

/// Opens the evaluation's samples and the training's. False when the job was told to stop before
/// there was data.
bool open_data(const config::Config& config, const pjrt::Client& client, const Job& job,
               Training& out) {
  const TrainingStep& what = out.step;
  const bool videos_alone =
      config.run.enable_generate_video_for_eval && !has_evaluation_samples(config.run);
  const bool evaluates = config.run.eval_every > 0 && !videos_alone;
  // Before the state is there: encoders take memory too. The few samples of an evaluation first, so
  // that one that cannot work is known before all the others are encoded.
  const auto span = out.timings.measure("opening data");
  if (evaluates) {
    out.eval_source = make_eval_source(config, what.network.sizes(), what.samples, client, job);
  }
  if (out.eval_source) {
    training::check_evaluation(evaluation_options(config, what.expert), what.step.objective,
                               *out.eval_source);
  }
  if (!evaluates || out.eval_source) {
    out.source = make_source(config, what.network.sizes(), what.batch, client, job);
  }
  return out.source != nullptr;
}

training::LoopOptions loop_options(const config::Config& config, const Training& run,
                                   int64_t max_steps, double peak_tflops) {
  return {.first_step = run.first_step,
          .max_steps = max_steps,
          .checkpoint_every = config.run.checkpoint_every,
          .final_checkpoint = config.run.save_final_checkpoint,
          .on_nonfinite = config.optimizer.on_nonfinite == config::OnNonfinite::SKIP
                              ? training::OnNonfinite::SKIP
                              : training::OnNonfinite::STOP,
          .eval_every = config.run.eval_every,
          .check_replicas_every = config.runtime.check_replicas_every,
          .peak_tflops = peak_tflops};
}

/// What data, checkpoint and configuration say of the steps to come: how many, at which rates, of
/// which shapes. `known`: the configuration with what devices, data and model decided so far.
void plan_steps(const config::Config& config, const config::Config& known, const Start& start,
                const runtime::Devices& devices, Training& out) {
  const TrainingStep& what = out.step;
  config::Config resolved = known;
  const int64_t max_steps = steps_of(config.optimizer, out.source->size(), what.batch);
  resolved.optimizer.max_train_steps = max_steps;
  resolved = with_schedule(std::move(resolved), start);
  const training::Schedule schedule = schedule_of(resolved, what.batch);
  check_rate(schedule, start, max_steps);
  out.schedules = schedules_of(schedule, out.two);
  out.settings = record_of(resolved);
  out.notes = resume_lines(start, resolved);
  if (start.resumes()) {
    out.first_step = start.saved.step;
    out.first_position = start.saved.data_position;
    out.gain = start.saved.gain;
    out.resumed = start.folder;
  }
  for (const data::Sample& sample : out.source->examples()) {
    out.batches.push_back(batch_shapes(sample, what.network.sizes(), what.batch));
  }
  check(out.batches.size() == 1 || config.run.compiled_step.empty(),
        "[train] compiled_step is one program, but the data has {} sizes", out.batches.size());
  for (const training::BatchShapes& shapes : out.batches) {
    const Dims& latents = shapes.latents.dims;
    out.tflops.push_back(training::training_tflops(
        what.network, {latents[1], latents[2], latents[3], latents[4]}, shapes.text.dims[1],
        static_cast<double>(what.batch) / static_cast<double>(devices.total()),
        what.adapters.empty() ? training::Trained::NETWORK : training::Trained::ADDITIONS));
  }
  constexpr double kTera = 1e12;
  out.loop = loop_options(config, out, max_steps,
                          planning::peak_flops(devices[0].description().kind) / kTera);
}

/// What else of a run lies in the host's memory: samples that stay there, and the copies that a
/// checkpoint is written from while steps go on.
int64_t held_beside_steps(const config::Config& config, const Training& run) {
  const training::BatchShapes& batch = run.batches.front();
  const int64_t samples = std::max<int64_t>(1, batch.latents.dims[0]);
  const int64_t kept = kept_in_memory(config, run.source->size(),
                                      (batch.latents.bytes() + batch.text.bytes()) / samples);
  const bool copies = run.in_background && config.run.checkpoint_every > 0 &&
                      config.run.checkpoint_every < run.loop.max_steps;
  return kept +
         (copies ? run.experts->size() *
                       training::checkpoint_bytes(run.experts->trainer().state_parts(), run.held())
                 : 0);
}

data::PrefetchOptions prefetch_options(const config::Config& config, const Training& run) {
  data::PrefetchOptions out;
  out.batch_size = run.step.batch;
  out.start = run.first_position;
  out.threads = static_cast<int>(config.data.decode_threads);
  out.depth = config.data.prefetch_batches;
  out.rows = run.experts->trainer().rows();
  return out;
}

/// The trainer without its state, and what it will take. False when the job was told to stop.
bool compile(const config::Config& config, const runtime::Devices& devices, const Job& job,
             Training& out) {
  const auto span = out.timings.measure("compiling");
  runtime::ProgramOptions program = trying_kernels(step_program_options(config), devices, job);
  program.trace_kernels = config.run.enable_profiler;
  TrainerParts parts{.devices = devices,
                     .what = out.step,
                     .batches = out.batches,
                     .trainer = {.seed = static_cast<uint64_t>(config.run.seed),
                                 .empty_text = {},
                                 .program = program},
                     .two = out.two};
  add_empty_text(config, out.step.network.sizes(), out.batches[0], devices.client(), job,
                 parts.trainer);
  parts.trainer.before_compile = [&](const training::StepGraph& step) {
    check_step_may_fit(step, config, parts, job);
  };
  std::unique_ptr<training::Trainer> trainer = compiled(parts, job);
  job.sync_stop("the compiled step");
  if (job.stop_requested()) {
    return false;
  }
  check_step_fits(*trainer, config, parts, job);
  if (const std::string line = waiting_text(*trainer); !line.empty()) {
    job.line(line);
  }
  out.experts = out.two ? std::make_unique<training::Experts>(std::move(trainer), *out.two)
                        : std::make_unique<training::Experts>(std::move(trainer));
  out.memory = training::memory_use(out.experts->trainer(), devices, config.data.prefetch_batches,
                                    out.experts->idle_bytes());
  if (!runtime::has_own_memory(devices.client())) {
    out.memory.data += held_beside_steps(config, out);
  }
  return true;
}

/// What of the configuration only says how the run is saved and watched.
void take_settings(const config::Config& config, Training& out) {
  out.seed = config.run.seed;
  out.reuse_batch = config.data.reuse_example_batch;
  out.save_optimizer = config.run.save_optimizer;
  out.in_background = config.run.background_checkpoints;
  out.debug_nans = config.runtime.debug_nans;
}

/// Throws an Error where videos of the run ask for more steps than the schedule has.
void check_sampler(const config::Config& config, const networks::Network& network) {
  if (makes_videos(config.run)) {
    const std::optional<sample::PipelineFolder> pipeline = pipeline_index(config);
    check_sampler_steps(config.generate.num_inference_steps, pipeline && pipeline->schedule
                                                                 ? *pipeline->schedule
                                                                 : network->learned().sampled);
  }
}

void tell_adapters(std::span<const TrainedAdapter> adapters, const Job& job) {
  for (const TrainedAdapter& adapter : adapters) {
    for (const std::string& line : adapter.lines) {
      job.line("lora: " + line);
    }
  }
}

/// Several processes write checkpoints together.
void share_state(const runtime::Devices& devices, const Job& job, Training& out) {
  if (devices.is_shared()) {
    const world::World& world = job.world();
    out.shared = std::make_unique<training::SharedState>(devices, world.rank(), world.size());
    out.writers = std::make_unique<world::Communicator>(world.communicator());
  }
}

/// How large the run's checkpoints are and how many fit. Throws an Error where none does.
void plan_checkpoints(const config::Config& config, const Start& start,
                      const checkpoints::Keep& keep,
                      const training::StateParts<nn::ParamSpec>& state, const Job& job,
                      Training& out) {
  out.room =
      checkpoint_room(out.checkpoints->path(),
                      std::ssize(out.pretrained) * training::checkpoint_bytes(state, out.held()),
                      saved_steps(config, start), keep);
  job.notice(check_room(out.room));
}

/// Checks what the run resumes from, or begins with.
void check_start(const config::Config& config, const config::Config& resolved, const Start& start,
                 Training& out) {
  if (start.resumes()) {
    config::check_matches(start.saved.settings, record_of(resolved), start.folder);
  } else if (!start.init.empty()) {
    if (config.run.init_optimizer) {
      check_optimizer_of(start.init, config::word_of(config.optimizer.optimizer));
    }
    for (size_t place = 0; place < out.pretrained.size(); ++place) {
      begin_from(start.init, place, out);
    }
  }
}

}  // namespace

Training prepare_training(const config::Loaded& given, const pjrt::Client& client,
                          const fs::path& run, const Start& start,
                          checkpoints::StoredCheckpoints* stored, const Job& job) {
  const Expert expert = trained_expert(given.config);
  const std::vector<fs::path> pretrained = pretrained_networks(given.config, expert);
  const networks::Network network =
      pretrained.front().empty() ? scratch_network(given) : networks::open(pretrained.front());
  const config::Loaded loaded = with_image_keys(given, pictures_of(network));
  const config::Config& config = loaded.config;
  Training out;
  out.run = run;
  out.stored = stored;
  take_settings(config, out);
  // Those that are sent to a store go from here when they are there.
  const checkpoints::Keep keep = keep_of(loaded, start);
  out.checkpoints = std::make_unique<checkpoints::CheckpointFolder>(
      checkpoints_folder(config, run), stored == nullptr ? keep : checkpoints::Keep{});
  out.writer = std::make_unique<training::Background>();

  const mesh::Placement asked = placement(config, client, job.world().hosts());
  check_videos(config, expert);
  out.pretrained = pretrained;
  if (const auto pipeline = pipeline_index(config)) {
    sample::check_family(*pipeline, network);
  }
  job.notice(file_notices(pretrained.front()));
  if (config.model.train_new_flux || config.model.train_new_unet) {
    std::ranges::fill(out.pretrained, fs::path());  // of which only the sizes are taken
  }
  check_sampler(config, network);
  out.two = two_experts(config, network, expert);
  out.step =
      training_step(config, network, expert, trained_adapters(config, network, expert, job), asked);
  const TrainingStep& what = out.step;
  tell_adapters(what.adapters, job);
  const mesh::Placement& place = what.options.place;
  const runtime::Devices devices(client, place);
  job.notice(what.warnings);
  job.notice(config::notices_of_model(
      loaded, "train",
      missing_features(network, expert.which != config::TrainExpert::NONE, config)));
  const int64_t networks = std::ssize(out.pretrained);
  out.parameters = networks * count(own_of(what.specs));
  out.trained_parameters = networks * count(training::trained_of(what.specs));
  out.scheduler_config = scheduler_config_of(config, network, what.step.objective);
  const config::Config resolved = resolved_config(config, what, expert);
  check_start(config, resolved, start, out);
  share_state(devices, job, out);
  const bool ema = what.step.ema.is_on();
  const std::vector<nn::ParamSpec> kept = training::state_specs(what.specs, what.step.state);
  const auto optimizer = training::optimizer_of(what.step);
  plan_checkpoints(config, start, keep, training::state_parts(kept, ema, *optimizer), job, out);
  // What cannot fit at all is told before clips are encoded.
  check_state_fits(what, out.two, devices);
  if (!open_data(config, client, job, out)) {
    return out;
  }
  job.sync_stop("the data");
  if (job.stop_requested()) {
    return out;
  }
  check_same_data(*out.source, start.saved.data_position, job);
  plan_steps(config, resolved, start, devices, out);
  job.notice(turn_notices(out.two, out.loop.max_steps));
  if (!compile(config, devices, job, out)) {
    return out;
  }
  load_states({.start = start,
               .specs = kept,
               .ema = ema,
               .optimizer = *optimizer,
               .with_init_optimizer = config.run.init_optimizer,
               .one_reader = config.run.enable_single_replica_ckpt_restoring},
              devices, job, out);
  if (out.eval_source) {
    add_evaluation(config, devices, job, out);
  }
  out.prefetcher = std::make_unique<data::Prefetcher>(*out.source, prefetch_options(config, out));
  return out;
}

}  // namespace kinema::runs
