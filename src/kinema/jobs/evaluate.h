#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "kinema/job/job.h"
#include "kinema/resolve/settings.h"
#include "kinema/training/evaluation.h"

/// The loss of a model on samples that it was not trained on.
namespace kinema::jobs {

struct EvaluateResult {
  training::Evaluation evaluation;
  std::filesystem::path transformer;  // whose weights these are; of both experts, where they lie
  std::vector<std::filesystem::path> adapters;  // of the checkpoint, one for each transformer
  std::optional<int64_t> step;                  // of the run whose checkpoint it is
  double seconds = 0;
};

/// Evaluates the newest checkpoint of the run that the configuration names (or that of
/// generate_checkpoint_step; its averaged weights where use_ema is true and there are such),
/// without a run the pretrained transformer, on eval_data_dir: the numbers that training with these
/// weights would show. Throws an Error where model, data and configuration do not fit each other.
EvaluateResult evaluate(const resolve::Settings& config, const Observer& observer,
                        JobOptions options = {});

}  // namespace kinema::jobs
