#include "kinema/jobs/evaluate.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/core/stopwatch.h"
#include "kinema/jobs/run_evaluation.h"
#include "kinema/jobs/training.h"
#include "kinema/model_source/controlnets.h"
#include "kinema/model_source/lora.h"
#include "kinema/model_source/models.h"
#include "kinema/model_source/pictures.h"
#include "kinema/networks/open.h"
#include "kinema/plans/kernel_check.h"
#include "kinema/resolve/compiler_flags.h"
#include "kinema/resolve/dataset.h"
#include "kinema/resolve/device.h"
#include "kinema/resolve/evaluated_model.h"
#include "kinema/resolve/generation.h"
#include "kinema/resolve/two_experts.h"
#include "kinema/training/batch_shapes.h"
#include "kinema/training/checkpoint.h"
#include "kinema/weights/weights.h"

namespace kinema::jobs {

namespace {

namespace fs = std::filesystem;

/// `checkpoint` is set to the one that is evaluated.
EvaluateResult evaluate_newest(const resolve::Settings& given, fs::path& checkpoint,
                               const Job& job) {
  const resolve::Settings local = resolve::with_evaluated_inputs(given, job);
  const model_source::Expert expert = model_source::trained_expert(local);
  const model_source::SelectedModel model = model_source::find_model(local, job);
  checkpoint = model.checkpoint();
  std::vector<fs::path> transformers;
  for (const model_source::Expert& one : expert.each()) {
    transformers.push_back(one.is_low_noise() ? model.folder.transformer_2
                                              : model.folder.transformer);
  }
  EvaluateResult result{
      .transformer = transformers.size() == 1 ? transformers.front() : model.folder.folder,
      .step = model.step};
  std::ranges::copy_if(model.adapters, std::back_inserter(result.adapters),
                       [](const fs::path& own) { return !own.empty(); });
  const pjrt::Client client = resolve::open_client(local, job);
  const networks::Network network =
      model_source::with_trained_control(model, networks::open(transformers.front()));
  const resolve::Settings config = model_source::with_image_keys(
      plans::with_checked_kernels(local, client, job), model_source::picture_settings(network));
  const resolve::TrainingStep what = resolve::training_step(
      config, network, expert, resolve::evaluated_adapters(config, model, network, expert, job),
      resolve::placement(config, client));
  job.notice(what.warnings);
  const runtime::Devices devices(client, what.options.place);
  const auto source =
      datasets::make_source(resolve::evaluation_dataset(config, what.network.sizes(), what.samples),
                            what.network.sizes(), what.samples,
                            resolve::clip_encoders(config, what.network.sizes(), client, job,
                                                   model_source::trained_text_of(model)),
                            resolve::evaluation_report(), job);
  job.check_stop();
  const auto evaluating = job.task("evaluating");
  const Stopwatch watch;
  const auto evaluator = make_evaluator(
      config, what, training::batch_shapes(source->at(0), what.network.sizes(), what.samples),
      devices, job);
  const std::vector<nn::ParamSpec> kept = training::state_specs(what.specs, what.step.state);
  std::vector<runtime::Array> params;  // of one network, while it is evaluated
  const auto load = [&](int64_t place) {
    const auto i = static_cast<size_t>(place);
    params.clear();
    params = !model.folder.controlnets.empty()
                 ? training::load_base({.network = transformers.at(i),
                                        .texts = {},
                                        .control = model.folder.controlnets.front().path},
                                       {}, /*seed=*/0, kept, devices)
             : what.adapters.empty()
                 ? weights::load(transformers.at(i), kept, devices)
                 : weights::load_adapted(transformers.at(i), what.adapters.at(i).merged,
                                         what.adapters[i].start, /*seed=*/0, kept, devices);
    return training::pointers_to<runtime::Array>(params);
  };
  result.evaluation = evaluator->run(resolve::evaluated_parts(expert, load), *source, job.stop());
  result.seconds = watch.seconds();
  return result;
}

}  // namespace

EvaluateResult evaluate(const resolve::Settings& loaded, const Observer& observer,
                        JobOptions options) {
  const Job job(observer, std::move(options));
  job.check_stop();
  job.notice(resolve::device_notices(loaded));
  resolve::check_evaluation_data(loaded);
  resolve::check_flags(loaded, job);
  return model_source::with_newest_checkpoint(
      loaded, job, [&](fs::path& checkpoint) { return evaluate_newest(loaded, checkpoint, job); });
}

}  // namespace kinema::jobs
