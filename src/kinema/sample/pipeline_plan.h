#pragma once

#include <cstdint>
#include <set>

#include "kinema/sample/pipeline.h"

namespace kinema::sample {

/// Everything about a request that is known before anything is computed.
struct Pipeline::Plan {
  int64_t first = 0;         // of this process's videos
  int64_t videos = 0;        // of this process
  int64_t batch = 0;         // videos at once
  int64_t first_prompt = 0;  // of those that are encoded
  int64_t prompts = 0;
  VideoSizes sizes;
  Condition condition = Condition::NONE;
  schedulers::ScheduleConfig schedule;
  DenoiseSettings settings;
  bool guided = false;        // by any expert that the schedule uses
  std::set<int64_t> experts;  // that the schedule uses
  int64_t step_bytes = 0;     // of the largest step, with parameters that are to be loaded
  int64_t loaded_bytes = 0;   // of these, the parameters
  bool encoders_go = false;   // before the steps
  bool takes_pooled = false;  // as the network says
  bool takes_sizes = false;
};

}  // namespace kinema::sample
