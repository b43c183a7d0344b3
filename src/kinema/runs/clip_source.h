#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "kinema/config/config.h"
#include "kinema/data/source.h"
#include "kinema/data/split.h"
#include "kinema/data/video_source.h"
#include "kinema/encoders/text_encoder.h"
#include "kinema/networks/network.h"
#include "kinema/pjrt/client.h"
#include "kinema/runs/clip_report.h"
#include "kinema/runs/encoders.h"
#include "kinema/runs/job.h"

namespace kinema::runs {

/// Which samples a run takes of clips, in which order: all but their buckets and the batch.
data::VideoOptions video_options(const config::Config& config);

/// Clips as training samples, of which `batch` make a batch. With dataset_save_location, what is
/// not kept there is encoded first, as a task, and no encoder stays in memory; null when the job is
/// told to stop meanwhile. Else clips are encoded on the client's device while the run
/// goes. `report` says where it is told what was found of the clips. `part`: of eval_split.
std::unique_ptr<data::Source> make_clip_source(const config::Config& config,
                                               const networks::Sizes& model, int64_t batch,
                                               const pjrt::Client& client, const Job& job,
                                               const ClipReport& report, data::Split::Part part);

/// Bytes of the host's memory that so many samples of so many bytes come to once all were read:
/// clips that are encoded while the run goes are kept. 0 for other data.
int64_t kept_in_memory(const config::Config& config, int64_t samples, int64_t bytes);

/// Of a caption, states f32 or bf16 [t, d], from dataset_save_location where clips use that.
encoders::TextStates caption_states(const config::Config& config, const std::string& caption,
                                    const TextWidths& widths, const pjrt::Client& client,
                                    const Job& job);

}  // namespace kinema::runs
