#include "kinema/resolve/evaluated_model.h"

#include <array>
#include <memory>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/model_source/models.h"
#include "kinema/resolve/dataset.h"
#include "kinema/resolve/stored_paths.h"
#include "kinema/stores/local_copies.h"

namespace kinema::resolve {

void check_evaluation_data(const config::Config& config) {
  check(config.run.eval_split == 0 || !config.run.eval_data_dir.empty() ||
            config.data.dataset_type != config::DatasetType::SYNTHETIC,
        "[config] eval_split {:g} is a fraction of a data set, but dataset_type is synthetic",
        config.run.eval_split);
}

config::Loaded with_evaluated_inputs(const config::Loaded& given, const Job& job) {
  config::Loaded loaded = with_local_checkpoint(given, job);
  job.notice(model_source::check_run(loaded.config));
  if (!model_source::has_checkpoint(loaded.config) || model_source::has_adapter(loaded.config)) {
    loaded = model_source::with_local_models(std::move(loaded), model_source::Use::TRAIN, job);
  }
  if (loaded.config.run.eval_split > 0 && loaded.config.run.eval_data_dir.empty()) {
    return with_local_data(std::move(loaded), job);
  }
  loaded.config.run.eval_data_dir = stores::local_copy(loaded.config.run.eval_data_dir, job);
  return loaded;
}

std::vector<model_source::TrainedAdapter> evaluated_adapters(
    config::Config config, const model_source::SelectedModel& model,
    const networks::Network& network, const model_source::Expert& expert, const Job& job) {
  config.model.enable_lora = config.model.enable_lora || model.has_adapter();
  std::array<std::shared_ptr<const weights::Lora>, 2> own;
  if (model.has_adapter()) {  // the targets are the adapter's layers, not the configuration's
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
  std::vector<model_source::TrainedAdapter> out =
      model_source::trained_adapters(config, network, expert, job);
  const std::vector<model_source::Expert> each = expert.each();
  for (size_t place = 0; place < out.size(); ++place) {
    if (const auto& lora = own[each[place].is_low_noise() ? 1 : 0]) {
      out[place].start = {{.lora = lora}};
    }
  }
  return out;
}

}  // namespace kinema::resolve
