#include "cli/training.h"

#include <fmt/core.h>

#include <algorithm>

#include "cli/clip_source.h"
#include "cli/commands.h"
#include "cli/device.h"
#include "cli/wiring.h"
#include "config/buckets.h"
#include "core/error.h"
#include "mesh/batch.h"
#include "plan/target.h"
#include "runtime/environment.h"
#include "train/flops.h"
#include "train/wan_model.h"
#include "weights/config.h"
#include "weights/weights.h"

namespace kinema::cli {
namespace {

namespace fs = std::filesystem;

/// `samples` make a step.
train::Schedule schedule_of(const config::Config& config, int64_t samples) {
  const config::OptimizerConfig& o = config.optimizer;
  return {.learning_rate = o.learning_rate * (o.scale_lr ? static_cast<double>(samples) : 1.0),
          .steps = schedule_steps(config),
          .warmup_fraction = o.warmup_steps_fraction,
          .decay_fraction = o.lr_decay_fraction,
          .final_fraction = o.final_lr_fraction};
}

/// What decides a run's losses beside its code: a checkpoint is not resumed with other values.
train::Identity identity_of(const config::Config& config, const wan::TransformerConfig& model,
                            const Expert& expert, int64_t batch) {
  train::Identity identity = {
      {"seed", fmt::format("{}", config.run.seed)},
      {"samples per step", fmt::format("{}", batch)},
      {"gradient_accumulation_steps",
       fmt::format("{}", config.optimizer.gradient_accumulation_steps)},
      {"dataset_type", config.data.dataset_type},
      {"enable_data_shuffling", config.data.enable_data_shuffling ? "true" : "false"},
      {"autoencoder", config.model.autoencoder},
      {"text_encoder", config.model.text_encoder},
      {"model_type", config.model.model_type},
      {"train_expert", expert.name},
      {"range of timesteps", expert.timesteps()}};
  if (config.model.model_type == "TI2V") {
    identity["first_frame_conditioning_p"] =
        fmt::format("{}", config.optimizer.first_frame_conditioning_p);
  }
  identity["buckets"] = config::read_buckets(config.data).on ? config.data.buckets.json : "[]";
  // Sizes one by one, so that a refusal names the one that differs.
  const io::Json sizes = weights::config_json(model);
  for (const auto& [key, value] : sizes.members()) {
    if (key.front() != '_') {  // class and version are no settings
      identity[key] = value.dump(-1);
    }
  }
  return identity;
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

/// The newest sound checkpoint; those passed over are named.
train::Found find_checkpoint(const train::CheckpointFolder& checkpoints) {
  train::Found found = checkpoints.newest();
  for (const train::Damage& each : found.damaged) {
    warn(fmt::format("{} is passed over: {}", each.folder.string(), each.reason));
  }
  return found;
}

/// `specs` in the dtypes that the state is kept in.
std::vector<runtime::Array> first_state(const config::Config& config, const fs::path& pretrained,
                                        std::span<const nn::ParamSpec> specs, bool ema,
                                        const runtime::Devices& devices) {
  if (!pretrained.empty()) {
    weights::check_folder(pretrained, specs);
  }
  std::vector<runtime::Array> params =
      pretrained.empty()
          ? weights::initialise(specs, static_cast<uint64_t>(config.run.seed), devices)
          : weights::load(pretrained, specs, devices);
  return train::fresh_state(std::move(params), specs, ema, devices);
}

/// Throws an Error when the step takes more memory than there is, which on a CPU is the host's: the
/// plugin would find out in the middle of the first step.
void check_memory(const runtime::Devices& devices, const pjrt::CompiledMemory& step) {
  if (devices.client().platform_name() != "cpu") {
    return;
  }
  // The state lies there already.
  const int64_t wanted =
      (step.temporary + step.outputs - step.aliased) * static_cast<int64_t>(devices.count());
  const int64_t available = runtime::available_memory_bytes();
  check(
      wanted <= available,
      "[train] a step takes {:.1f} GB beside the parameters and the optimizer's state, {:.1f} GB "
      "are free\n  a smaller per_device_batch_size (with more gradient_accumulation_steps), fewer "
      "frames, or remat_policy=FULL takes less",
      static_cast<double>(wanted) / 1e9, static_cast<double>(available) / 1e9);
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

/// Evaluates `eval_source` by the program of one batch that a step is given, without accumulation.
void add_evaluation(const config::Config& config, std::span<const nn::ParamSpec> specs,
                    int64_t batch, const runtime::Devices& devices, Training& out) {
  const train::BatchShapes shapes = batch_shapes(out.eval_source->at(0), out.model, batch);
  const auto is_like = [&](const train::BatchShapes& training) {
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
  train::StepOptions step = step_options(config, out.expert);
  step.batch_axes = mesh::batch_axes(devices.placement(), config.parallel.data_sharding, batch);
  const config::RunConfig& run = config.run;
  const train::EvaluationOptions evaluation{
      .timesteps = trained_timesteps(config, out.expert),
      .samples = config.data.num_eval_samples,
      .most_of_a_timestep = run.eval_max_number_of_samples_in_bucket,
      .seed = static_cast<uint64_t>(run.seed),
      .program = program_options(config)};
  train::check_evaluation(evaluation, step.objective, *out.eval_source);
  out.evaluator = std::make_unique<train::Evaluator>(
      devices, specs, train::wan_model(out.model, options), shapes, step, evaluation);
}

}  // namespace

train::StepOptions step_options(const config::Config& config, const Expert& expert) {
  const config::OptimizerConfig& o = config.optimizer;
  train::StepOptions out;
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
  out.state =
      o.train_state_dtype == "weights_dtype" ? train::StateDType::WEIGHTS : train::StateDType::F32;
  return out;
}

Training prepare_training(config::Loaded& loaded, const pjrt::Client& client, const fs::path& run,
                          train::StoredCheckpoints* stored) {
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
  const train::Keep keep{.newest = config.run.checkpoints_to_keep,
                         .period = config.run.checkpoint_keep_period};
  out.checkpoints = std::make_unique<train::CheckpointFolder>(
      config.run.checkpoint_dir.empty() ? run / "checkpoints" : fs::path(config.run.checkpoint_dir),
      stored == nullptr ? keep : train::Keep{});
  out.writer = std::make_unique<train::Background>();
  out.checkpoints->clean();

  out.options.place = placement(config, client);
  const mesh::Placement& place = out.options.place;
  const runtime::Devices devices(client, place);
  const config::BatchSizes sizes = batch_sizes(config, static_cast<int64_t>(devices.count()));
  const config::OptimizerConfig& o = config.optimizer;
  mesh::check_batch(place, sizes.train, o.global_batch_size > 0 ? 0 : o.per_device_batch_size);
  const int64_t batch = sizes.train * o.gradient_accumulation_steps;
  const train::Found checkpoint = find_checkpoint(*out.checkpoints);
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
  out.identity = identity_of(config, out.model, out.expert, batch);

  const bool videos_alone =
      config.run.enable_generate_video_for_eval && config.run.eval_data_dir.empty();
  const bool evaluates = config.run.eval_every > 0 && !videos_alone;
  {
    // Before the state is there: encoders take memory too.
    const auto span = out.timings.measure("opening data");
    out.source = make_source(config, out.model, batch, client);
    if (out.source && evaluates) {
      out.eval_source = make_eval_source(config, out.model, sizes.train, client);
    }
    if (!out.source || (evaluates && !out.eval_source)) {
      return out;  // told to stop before there was data
    }
  }
  loaded.config.optimizer.max_train_steps = steps_of(o, out.source->size(), batch);
  out.schedule = schedule_of(config, batch);
  for (const data::Sample& sample : out.source->examples()) {
    out.batches.push_back(batch_shapes(sample, out.model, batch));
  }
  check(out.batches.size() == 1 || config.run.compiled_step.empty(),
        "[train] compiled_step is one program, but the data has {} sizes", out.batches.size());
  train::StepOptions step = step_options(config, out.expert);
  step.batch_axes = mesh::batch_axes(place, config.parallel.data_sharding, batch);
  const bool ema = step.ema_decay > 0;
  const std::vector<nn::ParamSpec> kept = train::state_specs(specs, step.state);
  std::vector<runtime::Array> state;
  std::optional<train::Timings::Span> span(std::in_place, out.timings, "loading weights");
  if (checkpoint.step) {
    const train::TrainState saved = train::read_train_state(checkpoint.folder);
    train::check_identity(saved, out.identity, checkpoint.folder);
    out.first_step = saved.step;
    out.first_position = saved.data_position;
    out.resumed = train::describe_parts(checkpoint.folder);
    state = train::load_state(checkpoint.folder, kept, ema, devices);
  } else {
    state = first_state(config, out.pretrained, kept, ema, devices);
  }
  span.emplace(out.timings, "compiling");
  for (const train::BatchShapes& shapes : out.batches) {
    const Dims& latents = shapes.latents.dims;
    out.tflops.push_back(train::training_tflops(
        out.model, {latents[1], latents[2], latents[3], latents[4]}, shapes.text.dims[1],
        static_cast<double>(batch) / static_cast<double>(devices.count())));
  }
  constexpr double kTera = 1e12;
  out.peak_tflops = plan::peak_flops(devices[0].description().kind) / kTera;
  runtime::ProgramOptions program = step_program_options(config);
  program.trace_kernels = config.run.enable_profiler;
  const train::Model network = train::wan_model(out.model, out.options);
  out.trainer = std::make_unique<train::Trainer>(
      devices, specs, network, out.batches[0], step, std::move(state),
      train::TrainerOptions{.seed = static_cast<uint64_t>(config.run.seed),
                            .empty_text = empty_text(config, out.batches[0].text, client),
                            .program = program});
  for (size_t i = 1; i < out.batches.size(); ++i) {
    out.trainer->add_shapes(network, out.batches[i]);
  }
  for (size_t i = 0; i < out.batches.size(); ++i) {
    check_memory(devices, out.trainer->report(i).memory);
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
