#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kinema/core/host_array.h"
#include "kinema/job/job.h"
#include "kinema/jobs/previews.h"
#include "kinema/resolve/settings.h"
#include "kinema/sample/pipeline.h"

/// Videos of prompts and images from a configuration: `kinema generate`.
namespace kinema::jobs {

/// The sizes and steps of a request, before the first step.
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
  /// The memory of the request, before anything of it is loaded, and the device's limit; 0:
  /// unknown.
  std::function<void(int64_t bytes, int64_t limit)> on_memory;
  PreviewOptions previews;
  /// Called with debug_sharding, if there is a mesh.
  std::function<void(const std::vector<std::string>& lines)> on_sharding;
};

/// The result in process 0 describes all videos, with the frames and latents of its own; in other
/// processes it describes their own videos.
struct GenerateResult {
  struct Video {
    std::string path;  // of the mp4: a local path, or gs://...
    std::string prompt;
    int64_t index = 0;          // its noise is a function of seed and index
    HostArray frames;           // u8 [f, h, w, 3]
    HostArray latents;          // f32 [c, f, h, w], normalised
    std::string frames_folder;  // of PNGs; empty without save_frames
  };
  std::vector<Video> videos;  // sorted by prompt
  std::string contact_sheet;  // a path; empty for none
  std::filesystem::path transformer;
  /// Sizes, schedule, times and memory; its videos are moved to `videos`.
  sample::Generated made;
};

/// The devices of a Generator.
struct DeviceUse {
  std::string kind;      // `NVIDIA H200`; empty: nothing was opened yet
  std::string platform;  // `cpu`, `cuda` or `tpu`
  int64_t count = 0;
  int64_t bytes = 0;  // in use on the first one; on a CPU, by the process
  int64_t limit = 0;  // of these; 0: unknown
};

class KeptPipeline;

/// Makes one request after another, with the model loaded and its steps compiled in between. A
/// request that differs only in what a request is (prompts, given pictures, sizes, steps, guidance,
/// seed, output files) loads nothing, and compiles only for shapes that are new; another model or
/// other adapters are loaded in place of those used longest ago. The files of a model may change in
/// between. Its videos have the same bits as those of `generate`. For one thread at a time.
class Generator {
 public:
  /// `most`: models that stay loaded at a time, as long as there is memory.
  explicit Generator(int64_t most = 1);
  ~Generator();
  Generator(const Generator&) = delete;
  Generator& operator=(const Generator&) = delete;

  /// See the function `generate`. After Stopped the model stays loaded; after any other error it is
  /// freed. With several processes nothing is kept.
  GenerateResult generate(const resolve::Settings& config, const GenerateObserver& observer,
                          JobOptions options = {});
  /// Frees the model.
  void release();
  DeviceUse device() const;
  /// True between a request and an error or `release`.
  bool is_loaded() const;

 private:
  int64_t most_;
  std::unique_ptr<KeptPipeline> kept_;
};

/// Makes and writes the videos; several processes divide them, and each uses its own devices.
/// Throws Stopped if a stop is requested, before the first step or after the current one; then no
/// video is written.
GenerateResult generate(const resolve::Settings& config, const GenerateObserver& observer,
                        JobOptions options = {});

}  // namespace kinema::jobs
