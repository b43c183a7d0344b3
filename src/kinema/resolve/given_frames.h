#pragma once

#include <cstdint>
#include <string>

#include "kinema/config/config.h"
#include "kinema/core/host_array.h"
#include "kinema/job/job.h"
#include "kinema/networks/network.h"
#include "kinema/sample/pipeline.h"
#include "kinema/sample/pipeline_folder.h"

/// Pictures and videos that a generation is given.
namespace kinema::resolve {

/// Reads the pictures of `image` (or image_url), last_image_url, control_image and
/// reference_images, control_video, `video`, `mask` and `strength` into a request whose sizes and
/// prompts are set: what the network's named inputs are made of, else the start. `image` is the
/// reference of a pipeline that edits images. A start or a reference sets the sizes that the
/// configuration does not. Of Wan-Animate the files of `set_animation`. Paths are local, `file://`
/// URLs or on the web. Throws an Error for keys that do not go together or with the model.
void set_given_frames(const config::Loaded& loaded, const networks::Sizes& network,
                      const sample::PipelineFolder& folder, const Job& job,
                      sample::GenerateRequest& request);

/// Reads an image u8 [h, w, 3] from a local path, a `file://` URL or the web; no bytes for an empty
/// name. `key` names it in errors.
HostArray read_given_image(const std::string& url, std::string_view key,
                           const config::Config& config, const Job& job);

/// The size of a start of height x width pixels: itself, or scaled down to an area of `most`
/// pixels, in multiples of 16.
struct StartSize {
  int64_t height = 0;
  int64_t width = 0;
};
StartSize start_size(int64_t height, int64_t width, int64_t most);

}  // namespace kinema::resolve
