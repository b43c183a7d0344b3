#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "kinema/sample/pipeline.h"
#include "kinema/sample/segments.h"

namespace kinema::sample {

/// The texts of a prompt's steps.
struct TextSteps {
  struct Until {
    int64_t last_step = 0;  // counted from 1
    int64_t text = 0;       // index among Plan::texts
  };
  std::vector<Until> steps;

  /// The text of a step, counted from 0.
  int64_t at(int64_t step) const;
};

/// All properties of a request that are known before computing.
struct Pipeline::Plan {
  int64_t first = 0;         // first of this process's videos
  int64_t videos = 0;        // of this process
  int64_t batch = 0;         // videos per batch
  int64_t first_prompt = 0;  // first of the encoded prompts
  int64_t prompts = 0;
  /// All texts to encode, in one call, so that an encoder may batch prompts and negative prompt.
  std::vector<encoders::Prompt> texts;
  std::vector<TextSteps> prompt_steps;    // of the encoded prompts
  std::vector<TextSteps> negative_steps;  // if guided: of each encoded prompt, or one for all
  int64_t text_rows = 0;
  bool zero_negative = false;     // the negative prompt is zeros, after the texts
  VideoSizes sizes;               // of a segment
  Segments segments;              // one, unless a long video is made in parts
  std::vector<StepInput> inputs;  // the named inputs that are given
  schedulers::ScheduleConfig schedule;
  DenoiseSettings settings;
  bool guided = false;                  // by any expert in the schedule
  std::set<int64_t> experts;            // used by the schedule
  int64_t step_bytes = 0;               // of the largest step, with parameters that will be loaded
  int64_t loaded_bytes = 0;             // the parameters among these
  bool release_encoders_first = false;  // encoders are freed before the steps
  bool needs_pooled = false;            // the network takes pooled text
  bool needs_size_ids = false;

  /// Those of the whole video, with the latents of a segment.
  VideoSizes whole_sizes() const;
  /// The input that holds the kept part of the given frames; null if the network has none.
  const networks::NamedInput* filled() const;
};

}  // namespace kinema::sample
