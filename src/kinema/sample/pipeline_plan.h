#pragma once

#include <cstdint>
#include <set>

#include "kinema/sample/pipeline.h"

namespace kinema::sample {

/// All properties of a request that are known before computing.
struct Pipeline::Plan {
  int64_t first = 0;         // first of this process's videos
  int64_t videos = 0;        // of this process
  int64_t batch = 0;         // videos per batch
  int64_t first_prompt = 0;  // first of the encoded prompts
  int64_t prompts = 0;
  VideoSizes sizes;
  Condition condition = Condition::NONE;
  ImageChannels channels = ImageChannels::NONE;
  schedulers::ScheduleConfig schedule;
  DenoiseSettings settings;
  bool guided = false;                  // by any expert in the schedule
  std::set<int64_t> experts;            // used by the schedule
  int64_t step_bytes = 0;               // of the largest step, with parameters that will be loaded
  int64_t loaded_bytes = 0;             // the parameters among these
  bool release_encoders_first = false;  // encoders are freed before the steps
  bool needs_pooled = false;            // the network takes pooled text
  bool needs_size_ids = false;
};

}  // namespace kinema::sample
