#pragma once

#include <memory>

#include "kinema/config/config.h"
#include "kinema/data/source.h"
#include "kinema/data/split.h"
#include "kinema/networks/network.h"
#include "kinema/pjrt/client.h"
#include "kinema/runs/clip_report.h"
#include "kinema/runs/job.h"

/// The samples that a configuration names.
namespace kinema::runs {

/// Training samples for a transformer; `batch` samples make a batch. Videos are encoded on the
/// client's device; null when the process is told to stop while they are (make_clip_source).
/// `report`: where it is told what was found of clips. `part`: of eval_split; ALL for a set that is
/// not split.
std::unique_ptr<data::Source> make_source(const config::Config& config,
                                          const networks::Sizes& model, int64_t batch,
                                          const pjrt::Client& client, const Job& job,
                                          const ClipReport& report = {},
                                          data::Split::Part part = data::Split::Part::TRAINED);

/// The samples of eval_data_dir, in order: TFRecords, or videos where it holds clips or a list of
/// them; with eval_split, those of the training's set that are kept out.
std::unique_ptr<data::Source> make_eval_source(const config::Config& config,
                                               const networks::Sizes& model, int64_t batch,
                                               const pjrt::Client& client, const Job& job);

}  // namespace kinema::runs
