#include "kinema/jobs/training.h"

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <memory>

#include "kinema/core/error.h"
#include "kinema/io/json.h"
#include "kinema/jobs/empty_caption.h"
#include "kinema/jobs/initial_state.h"
#include "kinema/jobs/run_evaluation.h"
#include "kinema/jobs/same_inputs.h"
#include "kinema/model_source/continued_run.h"
#include "kinema/model_source/controlnets.h"
#include "kinema/model_source/model_paths.h"
#include "kinema/model_source/model_schedule.h"
#include "kinema/model_source/network.h"
#include "kinema/model_source/pictures.h"
#include "kinema/model_source/selected_model.h"
#include "kinema/model_source/trained_text.h"
#include "kinema/networks/open.h"
#include "kinema/planning/target.h"
#include "kinema/plans/compiled_trainer.h"
#include "kinema/plans/expected_step.h"
#include "kinema/plans/kernel_check.h"
#include "kinema/plans/memory_advice.h"
#include "kinema/resolve/dataset.h"
#include "kinema/resolve/device.h"
#include "kinema/resolve/encoders.h"
#include "kinema/resolve/generation.h"
#include "kinema/resolve/missing_features.h"
#include "kinema/resolve/open_run.h"
#include "kinema/resolve/resume.h"
#include "kinema/resolve/two_experts.h"
#include "kinema/training/batch_shapes.h"
#include "kinema/training/flops.h"
#include "kinema/training/state.h"
#include "kinema/weights/weights.h"

namespace kinema::jobs {
namespace {

namespace fs = std::filesystem;

/// Opens the evaluation's and the training's samples. Returns false if a stop was requested before
/// they were ready.
bool open_data(const resolve::Settings& settings, const pjrt::Client& client, const Job& job,
               Training& out) {
  const resolve::TrainingStep& what = out.step;
  const networks::Sizes& model = what.network.sizes();
  const datasets::ClipEncoders encoders = resolve::clip_encoders(settings, model, client, job);
  // Before the state is loaded, because encoders need memory too. Evaluation samples are first:
  // they are few, so an error there is found before all others are encoded.
  const auto span = out.timings.measure("opening data");
  if (out.settings.evaluates) {
    const datasets::Dataset dataset = resolve::evaluation_dataset(settings, model, what.samples);
    if (datasets::clips_in(dataset) != nullptr) {  // before they are encoded
      training::check_timesteps(resolve::evaluation_options(settings, what.expert),
                                what.step.objective);
    }
    out.eval_source = datasets::make_source(dataset, model, what.samples, encoders,
                                            resolve::evaluation_report(), job);
  }
  if (out.eval_source) {
    training::check_evaluation(resolve::evaluation_options(settings, what.expert),
                               what.step.objective, *out.eval_source);
  }
  if (!out.settings.evaluates || out.eval_source) {
    const datasets::Dataset dataset = resolve::training_dataset(settings, model, what.batch);
    if (const datasets::ClipSettings* clips = datasets::clips_in(dataset)) {
      out.clips = *clips;
    }
    out.source = datasets::make_source(dataset, model, what.batch, encoders, {}, job);
  }
  return out.source != nullptr;
}

/// Sets the number of steps, their rates and shapes from data, checkpoint and configuration.
/// `known`: the settings with resolved defaults.
void plan_steps(const resolve::Settings& known, const resolve::Start& start,
                const runtime::Devices& devices, Training& out) {
  const resolve::TrainingStep& what = out.step;
  resolve::RunLength length = resolve::run_length(known, start, out.source->size(), what.batch);
  out.schedules = resolve::expert_schedules(length.schedule, out.two);
  out.record = std::move(length.record);
  out.notes = std::move(length.notes);
  if (start.resumes()) {
    out.first_step = start.saved.step;
    out.first_position = start.saved.data_position;
    out.early_stopping = start.saved.early_stopping;
    out.resumed = start.folder;
  }
  for (const data::Sample& sample : out.source->examples()) {
    out.batches.push_back(training::batch_shapes(sample, what.network.sizes(), what.batch));
  }
  check(out.batches.size() == 1 || !out.settings.compiled_step,
        "[train] compiled_step is one program, but the data has {} sizes", out.batches.size());
  for (const training::BatchShapes& shapes : out.batches) {
    const Dims& latents = shapes.latents.dims;
    out.tflops.push_back(training::training_tflops(
        what.network, {latents[1], latents[2], latents[3], latents[4]}, shapes.text.dims[1],
        static_cast<double>(what.batch) / static_cast<double>(devices.total()),
        out.held().frozen ? training::Trained::NETWORK : training::Trained::ADAPTER));
  }
  constexpr double kTera = 1e12;
  out.loop = length.loop;
  out.loop.first_step = out.first_step;
  out.loop.peak_tflops = planning::peak_flops(devices[0].description().kind) / kTera;
}

/// Other host memory of a run: cached samples, and the copies from which checkpoints are written
/// while steps run.
int64_t held_between_steps(const Training& run) {
  const training::BatchShapes& batch = run.batches.front();
  const int64_t samples = std::max<int64_t>(1, batch.latents.dims[0]);
  const int64_t bytes = (batch.latents.bytes() + batch.text.bytes()) / samples;
  const int64_t kept =
      run.clips ? datasets::cached_bytes(*run.clips, run.source->size(), bytes) : 0;
  const bool copies = run.settings.background_checkpoints && run.loop.checkpoint_every > 0 &&
                      run.loop.checkpoint_every < run.loop.max_steps;
  return kept +
         (copies ? run.experts->size() *
                       training::checkpoint_bytes(run.experts->trainer().state_parts(), run.held())
                 : 0);
}

/// Compiles the trainer, without its state, and estimates its memory. Returns false if a stop was
/// requested.
bool compile(const resolve::Settings& config, const runtime::Devices& devices, const Job& job,
             Training& out) {
  const auto span = out.timings.measure("compiling");
  runtime::ProgramOptions program =
      plans::with_kernel_check(resolve::step_program_options(config), devices, job);
  program.trace_kernels = out.settings.trace_kernels;
  plans::TrainerParts parts{.devices = devices,
                            .what = out.step,
                            .batches = out.batches,
                            .trainer = {.seed = static_cast<uint64_t>(out.settings.seed),
                                        .empty_text = {},
                                        .program = program},
                            .two = out.two};
  add_empty_text(config, out, devices.client(), job, parts.trainer);
  parts.trainer.before_compile = [&](const training::StepGraph& step) {
    plans::check_step_may_fit(step, config, parts, job);
  };
  std::unique_ptr<training::Trainer> trainer = plans::compiled(parts, job);
  job.barrier("the compiled step");
  if (job.stop_requested()) {
    return false;
  }
  plans::check_step_fits(*trainer, config, parts, job);
  if (const std::string line = plans::offloaded_text(*trainer); !line.empty()) {
    job.line(line);
  }
  out.experts = out.two ? std::make_unique<training::Experts>(std::move(trainer), *out.two)
                        : std::make_unique<training::Experts>(std::move(trainer));
  for (size_t shape = 0; shape < out.batches.size(); ++shape) {
    out.expected_seconds.push_back(plans::expected_step_seconds(out.experts->trainer(), shape));
  }
  out.memory = training::memory_use(out.experts->trainer(), devices, out.prefetch.depth,
                                    out.experts->idle_bytes());
  if (!runtime::has_device_memory(devices.client())) {
    out.memory.data += held_between_steps(out);
  }
  return true;
}

void tell_adapters(std::span<const model_source::TrainedAdapter> adapters, const Job& job) {
  for (const model_source::TrainedAdapter& adapter : adapters) {
    for (const std::string& line : adapter.lines) {
      job.line("lora: " + line);
    }
  }
}

/// With several processes, checkpoints are written by all.
void share_state(const runtime::Devices& devices, const Job& job, Training& out) {
  if (devices.is_shared()) {
    const world::World& world = job.world();
    out.shared = std::make_unique<training::SharedState>(devices, world.rank(), world.size());
    out.writers = std::make_unique<world::Communicator>(world.new_communicator());
  }
}

/// The size of the run's checkpoints, and how many fit on the disk. Throws an Error if not even one
/// fits.
void plan_checkpoints(const resolve::Settings& config, const resolve::Start& start,
                      const checkpoints::Keep& keep,
                      const training::StateParts<nn::ParamSpec>& state, const Job& job,
                      Training& out) {
  out.space = checkpoints::checkpoint_space(
      out.checkpoints->path(),
      std::ssize(out.pretrained) * training::checkpoint_bytes(state, out.held()),
      resolve::saved_steps(config, start), keep);
  job.notice(checkpoints::check_space(out.space));
}

/// Checks the checkpoint from which the run resumes or starts.
void check_start(const resolve::Settings& resolved, const resolve::Start& start, Training& out) {
  if (start.resumes()) {
    resolve::check_resumes(start, resolved);
  } else if (!start.init.empty()) {
    if (out.settings.init_optimizer) {
      check_optimizer_of(start.init, out.settings.optimizer);
    }
    for (size_t place = 0; place < out.pretrained.size(); ++place) {
      begin_from(start.init, place, out);
    }
  }
}

/// Builds the step of the network and its adapters for the requested devices.
void plan_step(const resolve::Settings& settings, const networks::Network& network,
               const model_source::Expert& expert, const std::vector<fs::path>& pretrained,
               const mesh::Placement& asked, const Job& job, Training& out) {
  model_source::check_videos(settings, expert);
  out.pretrained = pretrained;
  if (const auto pipeline = model_source::pipeline_index(settings)) {
    sample::check_family(*pipeline, network);
  }
  job.notice(model_source::file_notices(pretrained.front()));
  if (out.settings.sizes_only) {
    std::ranges::fill(out.pretrained, fs::path());  // only the sizes are used
  }
  resolve::check_sampler(settings, network);
  out.two = resolve::two_experts(settings, network, expert);
  out.step =
      resolve::training_step(settings, network, expert,
                             model_source::trained_adapters(settings, network, expert, job), asked);
  const resolve::TrainingStep& what = out.step;
  tell_adapters(what.adapters, job);
  job.notice(what.warnings);
  job.notice(resolve::model_notices(settings, network, expert.is_of_two()));
  const int64_t networks = std::ssize(out.pretrained);
  out.parameters = networks * training::network_parameters(what.specs);
  out.trained_parameters = networks * training::trained_parameters(what.specs);
  out.scheduler_config = resolve::scheduler_config(settings, network, what.step.objective);
}

}  // namespace

Training prepare_training(const resolve::Settings& given, const pjrt::Client& client,
                          const fs::path& run, const resolve::Start& start,
                          checkpoints::StoredCheckpoints* stored, const Job& job) {
  const model_source::Expert expert = model_source::trained_expert(given);
  const std::vector<fs::path> pretrained = resolve::pretrained_networks(given, expert);
  const networks::Network plain = pretrained.front().empty() ? model_source::scratch_network(given)
                                                             : networks::open(pretrained.front());
  const resolve::Settings settings =
      model_source::with_image_keys(given, model_source::picture_settings(plain));
  const std::optional<model_source::TrainedText> text = model_source::trained_text(settings);
  const auto control = model_source::trained_control(settings, plain, job);
  const networks::Network network =
      control ? control->network : model_source::with_text(plain, text);
  Training out;
  out.plain = control ? network : plain;
  if (control) {
    out.base.control = control->start;
  }
  if (text) {
    out.base = text->base();
    out.inner_texts = text->texts;
  }
  out.run = run;
  out.stored = stored;
  out.settings = resolve::training_settings(settings);
  out.prefetch = resolve::prefetch_options(settings);
  // Files in a store's staging folder are removed after the upload.
  const checkpoints::Keep keep = resolve::checkpoint_keep(settings, start);
  out.checkpoints = std::make_unique<checkpoints::CheckpointFolder>(
      resolve::run_checkpoints(settings, run), stored == nullptr ? keep : checkpoints::Keep{});
  out.writer = std::make_unique<training::Background>();

  const mesh::Placement asked = resolve::placement(settings, client, job.world().hosts());
  plan_step(settings, network, expert, pretrained, asked, job, out);
  const resolve::TrainingStep& what = out.step;
  const runtime::Devices devices(client, what.options.place);
  const resolve::Settings known = resolve::with_resolved(settings, what, expert);
  check_start(known, start, out);
  share_state(devices, job, out);
  const bool ema = what.step.ema.is_on();
  const std::vector<nn::ParamSpec> kept = training::state_specs(what.specs, what.step.state);
  const auto optimizer = training::make_optimizer(what.step);
  plan_checkpoints(settings, start, keep, training::state_parts(kept, ema, *optimizer), job, out);
  // A state that cannot fit is reported before clips are encoded.
  plans::check_state_fits(what, out.two, devices);
  if (!open_data(settings, client, job, out)) {
    return out;
  }
  job.barrier("the data");
  if (job.stop_requested()) {
    return out;
  }
  check_same_data(*out.source, start.saved.data_position, job);
  plan_steps(known, start, devices, out);
  job.notice(resolve::expert_notices(out.two, out.loop.max_steps));
  if (!compile(settings, devices, job, out)) {
    return out;
  }
  load_states({.start = start,
               .specs = kept,
               .ema = ema,
               .optimizer = *optimizer,
               .with_init_optimizer = out.settings.init_optimizer,
               .one_reader = out.settings.one_reader},
              devices, job, out);
  if (out.eval_source) {
    add_evaluation(settings, devices, job, out);
  }
  out.prefetch.batch_size = what.batch;
  out.prefetch.start = out.first_position;
  out.prefetch.rows = out.experts->trainer().rows();
  out.prefetcher = std::make_unique<data::Prefetcher>(*out.source, out.prefetch);
  return out;
}

}  // namespace kinema::jobs
