#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "kinema/job/job.h"
#include "kinema/resolve/settings.h"
#include "kinema/training/evaluation.h"

/// The loss of a model on held-out samples.
namespace kinema::jobs {

struct EvaluateResult {
  training::Evaluation evaluation;
  std::filesystem::path transformer;  // the folder of the weights; of both experts, their parent
  std::vector<std::filesystem::path> adapters;  // of the checkpoint, one per transformer
  std::optional<int64_t> step;                  // of the run's checkpoint
  double seconds = 0;
};

/// Evaluates the newest checkpoint of the configuration's run (or that of generate_checkpoint_step;
/// its EMA weights if use_ema is true and it has them), without a run the pretrained transformer,
/// on eval_data_dir. The losses equal those of a training run's evaluation with these weights.
/// Throws an Error if model, data and configuration do not fit together.
EvaluateResult evaluate(const resolve::Settings& config, const Observer& observer,
                        JobOptions options = {});

}  // namespace kinema::jobs
