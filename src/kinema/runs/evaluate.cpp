#include "kinema/runs/evaluate.h"

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "kinema/core/stopwatch.h"
#include "kinema/networks/open.h"
#include "kinema/runs/compiler_flags.h"
#include "kinema/runs/data_sets.h"
#include "kinema/runs/device.h"
#include "kinema/runs/generation.h"
#include "kinema/runs/kernel_check.h"
#include "kinema/runs/models.h"
#include "kinema/runs/stores.h"
#include "kinema/runs/training.h"
#include "kinema/runs/wiring.h"
#include "kinema/training/checkpoint.h"
#include "kinema/weights/weights.h"

namespace kinema::runs {

namespace {

/// The adapter of the checkpoint, or of lora_config's files.
std::optional<TrainedAdapter> evaluated_adapter(config::Config config, const ModelToUse& model,
                                                const networks::Network& network,
                                                const Expert& expert, const Job& job) {
  config.model.enable_lora = config.model.enable_lora || !model.adapter.empty();
  std::optional<TrainedAdapter> out = trained_adapter(config, network, expert, job);
  if (!model.adapter.empty()) {
    out->start = {
        {.lora = std::make_shared<const weights::Lora>(weights::Lora::open(model.adapter))}};
  }
  return out;
}

}  // namespace

EvaluateResult evaluate(config::Loaded loaded, const Observer& observer, JobOptions options) {
  const Job job(observer, std::move(options));
  job.check_stop();
  job.notice(device_notices(loaded.config));
  check_flags(loaded, job);
  fetch_checkpoint(loaded.config, job);
  if (!has_checkpoint(loaded.config) || has_adapter(loaded.config)) {
    fetch_models(loaded.config, Use::TRAIN, job);
  }
  if (loaded.config.run.eval_split > 0 && loaded.config.run.eval_data_dir.empty()) {
    fetch_data(loaded.config, job);
  } else {
    loaded.config.run.eval_data_dir = local_copy(loaded.config.run.eval_data_dir, job);
  }
  const config::Config& config = loaded.config;
  const Expert expert = trained_expert(config);
  const ModelToUse model = find_model(loaded, job);
  EvaluateResult result{
      .transformer = expert.is_low_noise() ? model.folder.transformer_2 : model.folder.transformer,
      .step = model.step};
  const pjrt::Client client = runtime::open_client(client_spec(config));
  check_kernels(loaded.config, client, job);
  const networks::Network network = networks::open(result.transformer);
  const TrainingStep what =
      training_step(config, network, expert, evaluated_adapter(config, model, network, expert, job),
                    placement(config, client));
  job.notice(what.doubts);
  const runtime::Devices devices(client, what.options.place);
  const auto source = make_eval_source(config, what.network.sizes(), what.samples, client, job);
  job.check_stop();
  const auto evaluating = job.task("evaluating");
  const Stopwatch watch;
  const auto evaluator = make_evaluator(
      config, what, batch_shapes(source->at(0), what.network.sizes(), what.samples), devices, job);
  const std::vector<nn::ParamSpec> kept = training::state_specs(what.specs, what.step.state);
  const std::vector<runtime::Array> params =
      what.adapter ? weights::load_adapted(result.transformer, what.adapter->merged,
                                           what.adapter->start, /*seed=*/0, kept, devices)
                   : weights::load(result.transformer, kept, devices);
  std::vector<const runtime::Array*> given;
  for (const runtime::Array& each : params) {
    given.push_back(&each);
  }
  result.evaluation = evaluator->run(given, *source, job.stop());
  result.seconds = watch.seconds();
  return result;
}

}  // namespace kinema::runs
