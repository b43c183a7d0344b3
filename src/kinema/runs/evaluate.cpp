#include "kinema/runs/evaluate.h"

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

EvaluateResult evaluate(config::Loaded loaded, const Observer& observer, JobOptions options) {
  const Job job(observer, std::move(options));
  job.check_stop();
  job.notice(device_notices(loaded.config));
  check_flags(loaded, job);
  fetch_checkpoint(loaded.config, job);
  if (!has_checkpoint(loaded.config)) {
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
  const TrainingStep what =
      training_step(config, networks::open(result.transformer), expert, placement(config, client));
  job.notice(what.doubts);
  const runtime::Devices devices(client, what.options.place);
  const auto source = make_eval_source(config, what.network.sizes(), what.samples, client, job);
  job.check_stop();
  const auto evaluating = job.task("evaluating");
  const Stopwatch watch;
  const auto evaluator = make_evaluator(
      config, what, batch_shapes(source->at(0), what.network.sizes(), what.samples), devices);
  const std::vector<runtime::Array> params = weights::load(
      result.transformer, training::state_specs(what.specs, what.step.state), devices);
  std::vector<const runtime::Array*> given;
  for (const runtime::Array& each : params) {
    given.push_back(&each);
  }
  result.evaluation = evaluator->run(given, *source, job.stop());
  result.seconds = watch.seconds();
  return result;
}

}  // namespace kinema::runs
