#pragma once

#include "kinema/config/config.h"
#include "kinema/job/job.h"
#include "kinema/networks/network.h"
#include "kinema/sample/pipeline.h"

/// The pictures and videos of Wan-Animate.
namespace kinema::resolve {

/// True if the network follows poses and faces.
bool is_animate(const networks::Sizes& network);

/// Reads the character, poses, faces, background and masks into a request whose sizes are set, and
/// sets the number of frames, the rate, and sizes that the configuration does not: those of the
/// poses. Throws an Error for files that are missing, do not go together, or belong to another
/// model.
void set_animation(const config::Loaded& loaded, const Job& job, sample::GenerateRequest& request);

/// Throws an Error for keys of Wan-Animate, of which other models have none.
void check_not_animated(const config::GenerateConfig& config);

/// The number of steps and the prompt of Wan-Animate, if the configuration has none.
void set_animate_defaults(const config::Loaded& loaded, const Job& job,
                          sample::GenerateRequest& request);

}  // namespace kinema::resolve
