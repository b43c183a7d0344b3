#include "kinema/runs/evaluate.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/core/stopwatch.h"
#include "kinema/networks/open.h"
#include "kinema/runs/compiler_flags.h"
#include "kinema/runs/data_sets.h"
#include "kinema/runs/data_sources.h"
#include "kinema/runs/device.h"
#include "kinema/runs/generation.h"
#include "kinema/runs/kernel_check.h"
#include "kinema/runs/models.h"
#include "kinema/runs/pictures.h"
#include "kinema/runs/run_evaluation.h"
#include "kinema/runs/stores.h"
#include "kinema/runs/training.h"
#include "kinema/runs/two_experts.h"
#include "kinema/training/checkpoint.h"
#include "kinema/weights/weights.h"

namespace kinema::runs {

namespace {

namespace fs = std::filesystem;

/// The adapters of the checkpoint, or of lora_config's files.
std::vector<TrainedAdapter> evaluated_adapters(config::Config config, const ModelToUse& model,
                                               const networks::Network& network,
                                               const Expert& expert, const Job& job) {
  config.model.enable_lora = config.model.enable_lora || model.has_adapter();
  std::array<std::shared_ptr<const weights::Lora>, 2> own;
  if (model.has_adapter()) {  // its layers are those that it changes, whatever a new run would
    config.model.lora_target_modules.clear();
    for (size_t place = 0; place < own.size(); ++place) {
      if (model.adapters[place].empty()) {
        continue;
      }
      own[place] =
          std::make_shared<const weights::Lora>(weights::Lora::open(model.adapters[place]));
      for (const auto& [module, target] : own[place]->targets()) {
        config.model.lora_target_modules.push_back(module);
      }
    }
  }
  std::vector<TrainedAdapter> out = trained_adapters(config, network, expert, job);
  const std::vector<Expert> each = expert.each();
  for (size_t place = 0; place < out.size(); ++place) {
    if (const auto& lora = own[each[place].is_low_noise() ? 1 : 0]) {
      out[place].start = {{.lora = lora}};
    }
  }
  return out;
}

/// The configuration with what an evaluation reads on this machine.
config::Loaded with_evaluated_inputs(const config::Loaded& given, const Job& job) {
  config::Loaded loaded = with_local_checkpoint(given, job);
  job.notice(check_run(loaded.config));
  if (!has_checkpoint(loaded.config) || has_adapter(loaded.config)) {
    loaded = with_local_models(std::move(loaded), Use::TRAIN, job);
  }
  if (loaded.config.run.eval_split > 0 && loaded.config.run.eval_data_dir.empty()) {
    return with_local_data(std::move(loaded), job);
  }
  loaded.config.run.eval_data_dir = local_copy(loaded.config.run.eval_data_dir, job);
  return loaded;
}

/// `checkpoint` becomes the one that is evaluated.
EvaluateResult evaluate_newest(const config::Loaded& given, fs::path& checkpoint, const Job& job) {
  const config::Loaded local = with_evaluated_inputs(given, job);
  const Expert expert = trained_expert(local.config);
  const ModelToUse model = find_model(local, job);
  checkpoint = model.checkpoint();
  std::vector<fs::path> transformers;
  for (const Expert& one : expert.each()) {
    transformers.push_back(one.is_low_noise() ? model.folder.transformer_2
                                              : model.folder.transformer);
  }
  EvaluateResult result{
      .transformer = transformers.size() == 1 ? transformers.front() : model.folder.folder,
      .step = model.step};
  std::ranges::copy_if(model.adapters, std::back_inserter(result.adapters),
                       [](const fs::path& own) { return !own.empty(); });
  const pjrt::Client client = open_client(local.config, job);
  const networks::Network network = networks::open(transformers.front());
  const config::Config config =
      with_image_keys(with_checked_kernels(local, client, job), pictures_of(network)).config;
  const TrainingStep what = training_step(config, network, expert,
                                          evaluated_adapters(config, model, network, expert, job),
                                          placement(config, client));
  job.notice(what.warnings);
  const runtime::Devices devices(client, what.options.place);
  const auto source = make_eval_source(config, what.network.sizes(), what.samples, client, job);
  job.check_stop();
  const auto evaluating = job.task("evaluating");
  const Stopwatch watch;
  const auto evaluator = make_evaluator(
      config, what, batch_shapes(source->at(0), what.network.sizes(), what.samples), devices, job);
  const std::vector<nn::ParamSpec> kept = training::state_specs(what.specs, what.step.state);
  std::vector<runtime::Array> params;  // of one network at a time
  const auto load = [&](int64_t place) {
    const auto i = static_cast<size_t>(place);
    params.clear();
    params = what.adapters.empty()
                 ? weights::load(transformers.at(i), kept, devices)
                 : weights::load_adapted(transformers.at(i), what.adapters.at(i).merged,
                                         what.adapters[i].start, /*seed=*/0, kept, devices);
    return training::pointers_to<runtime::Array>(params);
  };
  result.evaluation = evaluator->run(evaluated_parts(expert, load), *source, job.stop());
  result.seconds = watch.seconds();
  return result;
}

}  // namespace

EvaluateResult evaluate(const config::Loaded& loaded, const Observer& observer,
                        JobOptions options) {
  const Job job(observer, std::move(options));
  job.check_stop();
  job.notice(device_notices(loaded.config));
  check(loaded.config.run.eval_split == 0 || !loaded.config.run.eval_data_dir.empty() ||
            loaded.config.data.dataset_type != config::DatasetType::SYNTHETIC,
        "[config] eval_split {:g} is a share of a data set, but dataset_type is synthetic",
        loaded.config.run.eval_split);
  check_flags(loaded, job);
  return with_newest_checkpoint(
      loaded, job, [&](fs::path& checkpoint) { return evaluate_newest(loaded, checkpoint, job); });
}

}  // namespace kinema::runs
