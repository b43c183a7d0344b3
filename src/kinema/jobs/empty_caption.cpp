#include "kinema/jobs/empty_caption.h"

#include "kinema/core/error.h"
#include "kinema/datasets/clip_source.h"
#include "kinema/resolve/dataset.h"

namespace kinema::jobs {

void add_empty_text(const resolve::Settings& settings, const Training& run,
                    const pjrt::Client& client, const Job& job, training::TrainerOptions& out) {
  if (run.settings.caption_dropout <= 0) {
    return;
  }
  const networks::Sizes& model = run.step.network.sizes();
  const training::BatchShapes& batch = run.batches[0];
  const encoders::TextStates text =
      datasets::caption_states(resolve::clip_encoders(settings, model, client, job),
                               run.clips ? run.clips->kept : std::nullopt, "");
  const Dims wanted{batch.text.dims[1], batch.text.dims[2]};
  check(text.states.shape.dims == wanted,
        "[train] caption_dropout: the empty caption's text states are {}, those of the data {}\n  "
        "max_sequence_length must be that of the data, or caption_dropout=0",
        to_string(text.states.shape), to_string(wanted));
  out.empty_text = convert(text.states, batch.text.dtype);
  if (batch.pooled) {
    out.empty_pooled = convert(text.pooled, batch.pooled->dtype);
  }
}

}  // namespace kinema::jobs
