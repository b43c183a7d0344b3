#include "kinema/plans/compiled_trainer.h"

#include "kinema/training/network_model.h"

namespace kinema::plans {

std::unique_ptr<training::Trainer> compiled(const TrainerParts& parts, const Job& job) {
  const resolve::TrainingStep& what = parts.what;
  const training::Model network = training::network_model(what.network, what.options);
  auto out =
      std::make_unique<training::Trainer>(parts.devices, what.specs, network, parts.batches[0],
                                          what.step, training::State(), parts.trainer);
  for (const training::BatchShapes& batch : parts.batches.subspan(1)) {
    if (job.stop_requested()) {
      break;
    }
    out->add_shapes(network, batch);
  }
  return out;
}

}  // namespace kinema::plans
