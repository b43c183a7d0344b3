#pragma once

#include "kinema/job/job.h"
#include "kinema/jobs/training.h"
#include "kinema/pjrt/client.h"
#include "kinema/resolve/settings.h"
#include "kinema/training/trainer.h"

namespace kinema::jobs {

/// Adds the empty caption for caption dropout: text states [t, d], and pooled text [p] if the batch
/// has it.
void add_empty_text(const resolve::Settings& settings, const Training& run,
                    const pjrt::Client& client, const Job& job, training::TrainerOptions& out);

}  // namespace kinema::jobs
