#include "kinema/sample/output.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <functional>
#include <initializer_list>
#include <string_view>
#include <system_error>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/io/atomic_write.h"
#include "kinema/io/folder.h"
#include "kinema/io/json.h"
#include "kinema/media/image.h"
#include "kinema/media/video.h"
#include "kinema/sample/parameters_text.h"
#include "kinema/schedulers/samplers.h"

namespace kinema::sample {
namespace {

namespace fs = std::filesystem;

/// `_a_red_circle_moving_left`: letters and digits of the prompt, at most 60; empty for a prompt
/// without ASCII letters or digits.
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
  return out.empty() ? out : '_' + out;
}

/// What the videos are made of: `text`, or what of the first given input.
std::string word(const std::vector<networks::NamedInput>& inputs) {
  using enum networks::MadeOf;
  if (inputs.empty()) {
    return "text";
  }
  switch (inputs.front().made_of) {
    case FIRST_AND_LAST:
    case MASK_AND_KEPT:
    case KEPT_AND_MASK:
    case CONTROL_IMAGE:
    case FOLLOWED_IMAGE:
    case FOLLOWED_AND_KEPT:
    case START:
    case CONTROL_PICTURES:
      return "image";
    case FIRST_IMAGE:
      return "first_frame";
    case REFERENCE_IMAGE:
    case REFERENCE_FRAME:
      return "reference_image";
    case CONTROL_VIDEO:
    case CONTROL_AND_START:
    case CONTROL_AND_MASKED:
      return "control_video";
    case CAMERA_RAYS:
      return "camera";
    case ANIMATED:
    case POSE_VIDEO:
    case FACE_VIDEO:
      return "pose_video";
  }
  return "";
}

/// Settings that reproduce video `index`, with its prompt.
io::Json settings_of(const OutputOptions& options, const GeneratedVideo& video) {
  io::Json out = options.settings;
  out.set("prompt", video.prompt).set("prompt_file", "");
  out.set("num_videos_per_prompt", 1).set("first_video_index", video.index);
  if (out.find("num_images_per_prompt") != nullptr) {
    out.set("num_images_per_prompt", 1);
  }
  return out;
}

io::Json describe(const GenerateRequest& request, const Generated& generated,
                  const Pipeline& pipeline, const GeneratedVideo& video,
                  const OutputOptions& options) {
  const PipelineFolder& folder = pipeline.folder();
  io::Json out = io::Json::object();
  out.set("prompt", video.prompt);
  out.set("negative_prompt", request.negative_prompt.value_or(""));
  out.set("condition", word(generated.inputs));
  out.set("seed", static_cast<int64_t>(request.seed));
  out.set("index", video.index);
  out.set("num_inference_steps", request.num_inference_steps);
  out.set("guidance_scale", request.guidance_scale);
  if (folder.has_two_experts()) {
    out.set("guidance_scale_2", request.guidance_scale_2.value_or(request.guidance_scale));
    out.set("boundary_ratio", folder.boundary_ratio.value_or(0.0));
  }
  out.set("guidance_rescale", request.guidance_rescale);
  out.set("scheduler", class_name(generated.schedule));
  if (generated.flow_shift) {
    out.set("flow_shift", *generated.flow_shift);
  }
  out.set("model", folder.folder.string());
  out.set("transformer", folder.transformer.string());
  if (folder.has_two_experts()) {
    out.set("transformer_2", folder.transformer_2.string());
  }
  out.set("autoencoder", pipeline.autoencoder().name());
  out.set("text_encoder", pipeline.text_encoder().name());
  if (!request.initial_latents.empty()) {
    out.set("initial_latents", request.initial_latents.string());
  }
  if (request.true_cfg_scale != 1.0) {
    out.set("true_cfg_scale", request.true_cfg_scale);
  }
  if (!request.prompts_2.empty()) {
    out.set("prompt_2", request.prompts_2[static_cast<size_t>((video.index - request.first_index) /
                                                              request.num_videos_per_prompt)]);
  }
  out.set("num_frames", generated.sizes.num_frames);
  out.set("height", generated.sizes.height);
  out.set("width", generated.sizes.width);
  out.set("fps", options.fps);
  out.set("kinema", options.version);
  out.set("settings", settings_of(options, video));
  out.set("flags", options.flags);
  return out;
}

/// The only frame [1, h, w, 3] as [h, w, 3].
HostArray picture_of(const HostArray& frames) {
  HostArray out = frames;
  out.shape.dims.erase(out.shape.dims.begin());
  return out;
}

/// Every frame as a PNG.
fs::path write_frames(const fs::path& folder, const HostArray& frames) {
  io::make_folder(folder);
  HostArray frame(Shape{DType::U8, {frames.shape.dims[1], frames.shape.dims[2], 3}});
  for (int64_t i = 0; i < frames.shape.dims[0]; ++i) {
    const auto size = static_cast<int64_t>(frame.bytes.size());
    std::copy_n(frames.bytes.begin() + i * size, size, frame.bytes.begin());
    media::write_png(folder / fmt::format("{:04}.png", i), frame);
  }
  return folder;
}

/// Frames scaled so that they are visible in a contact sheet and a sheet of many videos can be
/// opened.
HostArray for_sheet(const HostArray& frames) {
  constexpr int64_t kTallest = 240;
  constexpr int64_t kShown = 5;  // see ContactSheetOptions::frames_per_video
  const Dims& dims = frames.shape.dims;
  if (dims[1] <= kTallest) {
    return frames;
  }
  const int64_t width = std::max<int64_t>(1, dims[2] * kTallest / dims[1]);
  const int64_t count = std::min(dims[0], kShown);
  HostArray out(Shape{DType::U8, {count, kTallest, width, 3}});
  HostArray frame(Shape{DType::U8, {dims[1], dims[2], 3}});
  const auto size = static_cast<int64_t>(frame.bytes.size());
  auto to = out.bytes.begin();
  for (int64_t i = 0; i < count; ++i) {
    const int64_t from = count == 1 ? 0 : i * (dims[0] - 1) / (count - 1);
    std::copy_n(frames.bytes.begin() + from * size, size, frame.bytes.begin());
    to = std::ranges::copy(media::resize_image(frame, kTallest, width).bytes, to).out;
  }
  return out;
}

void write_sheet(const fs::path& path, const std::vector<ListedVideo>& listed, int64_t frame_height,
                 const OutputOptions& options) {
  std::vector<HostArray> videos;
  std::vector<std::string> labels;
  for (const ListedVideo& video : listed) {
    videos.push_back(video.frames);
    labels.push_back(video.prompt);
  }
  constexpr int64_t kVisible = 48;  // rows of a frame that is visible in a contact sheet
  const int64_t height = videos.empty() ? kVisible : std::max<int64_t>(1, videos[0].shape.dims[1]);
  const bool tiny = frame_height == height;
  const int64_t enlarge =
      std::max<int64_t>(tiny ? options.enlarge : 1, (kVisible + height - 1) / height);
  media::write_png(
      path, media::contact_sheet(videos, labels,
                                 {.columns = options.contact_sheet_columns, .enlarge = enlarge}));
}

/// Calls visit(what, seconds) for each part, in the order of the work.
void for_each_part(const Timings& t, const std::function<void(const char*, double)>& visit) {
  visit("load", t.load);
  visit("text", t.text);
  if (t.image > 0) {
    visit("image", t.image);
  }
  visit("compile", t.compile);
  visit("denoise", t.denoise);
  visit("decode", t.decode);
  visit("total", t.total());
}

/// Unique names for new files in a folder.
class Names {
 public:
  Names(fs::path folder, const OutputOptions& options)
      : folder_(std::move(folder)), options_(options) {}

  /// `stem`, or `stem_1`, `stem_2` ... if a file or folder with that name and one of the endings
  /// exists. An empty file with the first ending is created, so that no other process uses the
  /// name.
  std::string reserve(const std::string& stem,
                      std::initializer_list<std::string_view> endings) const {
    for (int64_t n = 0;; ++n) {
      const std::string name = n == 0 ? stem : fmt::format("{}_{}", stem, n);
      const bool is_free = std::ranges::none_of(
          endings, [&](std::string_view ending) { return is_taken(name + std::string(ending)); });
      if (!options_.keep_existing ||
          (is_free && io::create_file(folder_ / (name + std::string(*endings.begin()))))) {
        return name;
      }
    }
  }

 private:
  bool is_taken(const std::string& name) const {
    std::error_code ignored;
    return options_.taken.contains(name) || fs::exists(folder_ / name, ignored);
  }

  fs::path folder_;
  const OutputOptions& options_;
};

/// The `file_name` of a line of metadata.jsonl; empty for other lines.
std::string file_name_of(const std::string& line) {
  try {
    const io::Json row = io::Json::parse(line, kVideoList);
    const io::Json* name = row.is_object() ? row.find("file_name") : nullptr;
    return name != nullptr && name->is_string() ? name->as_string() : "";
  } catch (const Error&) {
    return "";
  }
}

/// Adds the videos with their prompts to the folder's list, which makes the folder a data set.
void add_to_list(const fs::path& file, const std::vector<ListedVideo>& videos) {
  std::set<std::string> names;
  std::string rows;
  for (const ListedVideo& video : videos) {
    names.insert(video.file_name);
    rows +=
        io::Json::object({{"file_name", video.file_name}, {"text", video.prompt}}).dump(-1) + "\n";
  }
  std::string kept;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (!names.contains(file_name_of(line))) {
      kept += line + "\n";
    }
  }
  io::write_file(file, kept + rows);
}

}  // namespace

OutputFiles write_videos(const fs::path& folder, const GenerateRequest& request,
                         const Generated& generated, const Pipeline& pipeline,
                         const OutputOptions& options) {
  io::make_folder(folder);
  const Names names(folder, options);
  OutputFiles out;
  for (const GeneratedVideo& video : generated.videos) {
    const std::string_view ending =
        generated.sizes.is_image ? media::ending_of(options.image_format) : ".mp4";
    const std::string stem = names.reserve(fmt::format("{:03}{}", video.index, slug(video.prompt)),
                                           {".json", ending, ""});
    const fs::path path = folder / (stem + std::string(ending));
    const fs::path about = folder / (stem + ".json");
    const std::string words = describe(request, generated, pipeline, video, options).dump();
    try {
      io::write_file(about, words + "\n");
      if (generated.sizes.is_image) {
        const std::vector<media::PngText> inside{
            {.keyword = "kinema", .text = words},
            {.keyword = "parameters",
             .text =
                 parameters_text(request, generated, video,
                                 pipeline.folder().folder.filename().string(), options.version)}};
        media::write_image(path, picture_of(video.frames), options.image_format,
                           options.image_quality, inside);
      } else {
        media::write_mp4(path, video.frames, {.fps = options.fps, .enlarge = options.enlarge});
      }
    } catch (...) {  // a full disk: no metadata without the video
      std::error_code ignored;
      fs::remove(about, ignored);
      throw;
    }
    out.videos.push_back(path);
    if (options.frames) {
      out.frames.push_back(write_frames(folder / stem, video.frames));
    }
  }
  return out;
}

ListedVideo listed_video(const fs::path& file, const GeneratedVideo& video,
                         const OutputOptions& options) {
  return {.file_name = file.filename().string(),
          .prompt = video.prompt,
          .frames = options.contact_sheet ? for_sheet(video.frames) : HostArray()};
}

fs::path write_list(const fs::path& folder, const std::vector<ListedVideo>& videos,
                    int64_t frame_height, const OutputOptions& options) {
  add_to_list(folder / kVideoList, videos);
  if (!options.contact_sheet) {
    return {};
  }
  const Names names(folder, options);
  const fs::path sheet = folder / (names.reserve("contact_sheet", {".png"}) + ".png");
  write_sheet(sheet, videos, frame_height, options);
  return sheet;
}

OutputFiles write_outputs(const fs::path& folder, const GenerateRequest& request,
                          const Generated& generated, const Pipeline& pipeline,
                          const OutputOptions& options) {
  OutputFiles out = write_videos(folder, request, generated, pipeline, options);
  std::vector<ListedVideo> listed;
  for (size_t i = 0; i < out.videos.size(); ++i) {
    listed.push_back(listed_video(out.videos[i], generated.videos[i], options));
  }
  out.contact_sheet = write_list(folder, listed, generated.sizes.height, options);
  return out;
}

std::string timing_table(const Generated& generated) {
  std::string out;
  for_each_part(generated.timings, [&](const char* what, double seconds) {
    out += fmt::format("{:<8}{:>9.2f} s\n", what, seconds);
  });
  return out;
}

io::Json timing_json(const Generated& generated) {
  io::Json out = io::Json::object();
  for_each_part(generated.timings,
                [&](const char* what, double seconds) { out.set(what, seconds); });
  return out;
}

}  // namespace kinema::sample
