#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "kinema/core/host_array.h"
#include "kinema/job/job.h"
#include "kinema/resolve/settings.h"
#include "kinema/sample/pipeline.h"

/// Videos of prompts and images from a configuration, as `kinema generate` makes them.
namespace kinema::jobs {

/// What will be sampled, before the first step.
struct GenerateStart {
  int64_t videos = 0;
  int64_t num_frames = 0;
  int64_t height = 0;
  int64_t width = 0;
  int64_t num_inference_steps = 0;
};

struct GenerateObserver : Observer {
  std::function<void(const GenerateStart&)> on_start;
  std::function<void(int64_t done, int64_t total)> on_step;
  /// With debug_sharding, over a mesh.
  std::function<void(const std::vector<std::string>& lines)> on_sharding;
};

/// Of several processes, process 0's tells of all videos, and has the frames and latents of its
/// own; that of another tells of its own.
struct GenerateResult {
  struct Video {
    std::string path;  // of the mp4: on this machine, or gs://...
    std::string prompt;
    int64_t index = 0;          // its noise is a function of seed and index
    HostArray frames;           // u8 [f, h, w, 3]
    HostArray latents;          // f32 [c, f, h, w], normalised
    std::string frames_folder;  // of PNGs; empty without save_frames
  };
  std::vector<Video> videos;  // prompt by prompt
  std::string contact_sheet;  // a path; empty for none
  std::filesystem::path transformer;
  /// Sizes, schedule, times and memory; its videos are those above.
  sample::Generated made;
};

/// Makes and writes the videos; several processes share them out, and each uses its own devices.
/// Throws Stopped once a stop is asked for: before the first step, or
/// after the one that goes on; no video is written then.
GenerateResult generate(const resolve::Settings& config, const GenerateObserver& observer,
                        JobOptions options = {});

}  // namespace kinema::jobs
