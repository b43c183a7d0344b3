#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "kinema/config/config.h"
#include "kinema/data/source.h"
#include "kinema/data/split.h"
#include "kinema/encoders/text_encoder.h"
#include "kinema/networks/network.h"
#include "kinema/pjrt/client.h"
#include "kinema/runs/clip_report.h"
#include "kinema/runs/encoders.h"
#include "kinema/runs/job.h"

namespace kinema::runs {

/// Clips as training samples, of which `batch` make a batch. With dataset_save_location, what is
/// not kept there is encoded first, as a task, and no encoder stays in memory; null when the job is
/// told to stop meanwhile. Else clips are encoded on the client's device while the run
/// goes. `report` says where it is told what was found of the clips. `part`: of eval_split.
std::unique_ptr<data::Source> make_clip_source(const config::Config& config,
                                               const networks::Sizes& model, int64_t batch,
                                               const pjrt::Client& client, const Job& job,
                                               const ClipReport& report, data::Split::Part part);

/// Of a caption, states f32 or bf16 [t, d], from dataset_save_location where clips use that.
encoders::TextStates caption_states(const config::Config& config, const std::string& caption,
                                    const TextWidths& widths, const pjrt::Client& client,
                                    const Job& job);

}  // namespace kinema::runs
