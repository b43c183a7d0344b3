#include "sample/output.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "io/atomic_write.h"
#include "io/image.h"
#include "io/json.h"
#include "io/video.h"

namespace kinema::sample {
namespace {

namespace fs = std::filesystem;

/// `a_red_circle_moving_left`: letters and digits of the prompt, at most 60.
std::string slug(const std::string& prompt) {
  constexpr size_t kLongest = 60;
  std::string out;
  for (const char c : prompt) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 128 && std::isalnum(byte) != 0) {
      out += static_cast<char>(std::tolower(byte));
    } else if (!out.empty() && out.back() != '_') {
      out += '_';
    }
    if (out.size() == kLongest) {
      break;
    }
  }
  while (!out.empty() && out.back() == '_') {
    out.pop_back();
  }
  return out;
}

io::Json describe(const GenerateRequest& request, const Generated& generated,
                  const Pipeline& pipeline, size_t index, double fps) {
  const PipelineFolder& folder = pipeline.folder();
  io::Json out = io::Json::object();
  out.set("prompt", generated.videos[index].prompt);
  out.set("negative_prompt", request.negative_prompt);
  out.set("seed", static_cast<int64_t>(request.seed));
  out.set("index", static_cast<int64_t>(index));
  out.set("num_inference_steps", request.num_inference_steps);
  out.set("guidance_scale", request.guidance_scale);
  if (folder.has_two_experts()) {
    out.set("guidance_scale_2", request.guidance_scale_2.value_or(request.guidance_scale));
    out.set("boundary_ratio", folder.boundary_ratio.value_or(0.0));
  }
  out.set("scheduler", class_name(generated.schedule.sampler));
  out.set("flow_shift", generated.schedule.shift);
  out.set("model", folder.folder.string());
  out.set("transformer", folder.transformer.string());
  out.set("autoencoder", pipeline.autoencoder().name());
  out.set("text_encoder", pipeline.text_encoder().name());
  if (!request.initial_latents.empty()) {
    out.set("initial_latents", request.initial_latents.string());
  }
  out.set("num_frames", generated.sizes.num_frames);
  out.set("height", generated.sizes.height);
  out.set("width", generated.sizes.width);
  out.set("fps", fps);
  return out;
}

}  // namespace

OutputFiles write_outputs(const fs::path& folder, const GenerateRequest& request,
                          const Generated& generated, const Pipeline& pipeline,
                          const OutputOptions& options) {
  fs::create_directories(folder);
  OutputFiles out;
  std::vector<HostArray> videos;
  std::vector<std::string> labels;
  std::string metadata;
  for (size_t i = 0; i < generated.videos.size(); ++i) {
    const GeneratedVideo& video = generated.videos[i];
    const fs::path path = folder / fmt::format("{:03}_{}.mp4", i, slug(video.prompt));
    io::write_mp4(path, video.frames, {.fps = options.fps, .enlarge = options.enlarge});
    io::write_file(fs::path(path).replace_extension(".json"),
                   describe(request, generated, pipeline, i, options.fps).dump() + "\n");
    out.videos.push_back(path);
    videos.push_back(video.frames);
    labels.push_back(video.prompt);
    metadata += io::Json::object({{"file_name", path.filename().string()}, {"text", video.prompt}})
                    .dump(-1) +
                "\n";
  }
  // The videos with their prompts are a data set themselves.
  io::write_file(folder / "metadata.jsonl", metadata);
  out.contact_sheet = folder / "contact_sheet.png";
  constexpr int64_t kVisible = 48;  // rows of a frame that one can make out on a sheet
  const int64_t height = videos.empty() ? kVisible : std::max<int64_t>(1, videos[0].shape.dims[1]);
  const int64_t enlarge = std::max<int64_t>(options.enlarge, (kVisible + height - 1) / height);
  io::write_png(out.contact_sheet,
                io::contact_sheet(videos, labels,
                                  {.columns = options.contact_sheet_columns, .enlarge = enlarge}));
  return out;
}

std::string timing_table(const Generated& generated) {
  const Timings& t = generated.timings;
  std::string out;
  for (const auto& [what, seconds] : {std::pair{"load", t.load},
                                      {"text", t.text},
                                      {"compile", t.compile},
                                      {"denoise", t.denoise},
                                      {"decode", t.decode},
                                      {"total", t.total()}}) {
    out += fmt::format("{:<8}{:>9.2f} s\n", what, seconds);
  }
  return out;
}

}  // namespace kinema::sample
