#include "kinema/resolve/given_frames.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "kinema/core/error.h"
#include "kinema/io/mapped_file.h"
#include "kinema/media/control_picture.h"
#include "kinema/media/image.h"
#include "kinema/media/media_name.h"
#include "kinema/media/video.h"
#include "kinema/remote/web_file.h"

namespace kinema::resolve {
namespace {

namespace fs = std::filesystem;

/// Prints how the model's view of an image differs from the file.
void tell_what_changes(const io::MappedFile& file, const std::string& name,
                       const media::Background& background, const Job& job) {
  const media::ImageSize size = media::measure_image(file.bytes(), name);
  if (size.has_alpha) {
    job.notice(fmt::format("{} has an alpha channel: {} (alpha_background)", name,
                           background.drop
                               ? "it is dropped, and the stored colours are used"
                               : "transparent parts become " + media::background_name(background)));
  }
  if (size.is_hdr) {
    job.notice(fmt::format("{} is HDR (PQ or HLG): tone-mapped to SDR (BT.2390)", name));
  }
}

/// Reads an image from a local path, a `file://` URL or the web; `key` names it in errors.
HostArray read_given_image(const std::string& url, std::string_view key,
                           const config::Config& config, const Job& job) {
  if (url.empty()) {
    return {};
  }
  check(!media::is_video_name(url),
        "[generate] {} is the video {}, expected a picture\n"
        "  give one of its frames as PNG, JPEG or WebP",
        key, url);
  const media::Background background = media::read_background(config.data.alpha_background);
  const auto read = [&](const fs::path& path, const std::string& name) {
    const io::MappedFile file = io::MappedFile::open(path);
    HostArray out = media::read_image(file.bytes(), name, background);
    tell_what_changes(file, name, background, job);
    file.check_intact();
    return out;
  };
  if (remote::is_web_url(url)) {
    const remote::WebFile file(url);
    return read(file.path(), file.name());
  }
  constexpr std::string_view kFile = "file://";
  const std::string path = url.starts_with(kFile) ? url.substr(kFile.size()) : url;
  return read(path, path);
}

/// The first frames of a video at the rate of the result.
HostArray read_given_video(const std::string& path, const config::Loaded& loaded, const Job& job) {
  const config::GenerateConfig& g = loaded.config.generate;
  check(!media::is_image_name(path),
        "[generate] video is the picture {}\n  image={} starts from it", path, path);
  media::Video video = media::read_video(
      fs::path(path), {.fps = static_cast<double>(g.fps),
                       .max_frames = g.num_frames,
                       .background = media::read_background(loaded.config.data.alpha_background)});
  const int64_t frames = video.frames.shape.dims[0];
  check(frames == g.num_frames || !loaded.is_set("num_frames"),
        "[generate] {} has {} frames at {} a second (fps), but num_frames is {}\n  num_frames={} "
        "takes all",
        path, frames, g.fps, g.num_frames, frames);
  job.notice(
      fmt::format("starting from {} frames of {}, at {} a second (fps)", frames, path, g.fps));
  return std::move(video.frames);
}

void check_together(const config::GenerateConfig& g, const networks::Sizes& network,
                    bool takes_images) {
  check(g.image.empty() || g.image_url.empty() || g.image == g.image_url,
        "[generate] image is {}, image_url {}: they are names of the same key\n  give only one of "
        "them",
        g.image, g.image_url);
  const bool image = !g.image.empty() || !g.image_url.empty();
  check(!image || g.video.empty(),
        "[generate] image and video are both given, expected one of them to start from");
  check(image || !g.video.empty() || (g.mask.empty() && !g.strength.given),
        "[generate] {} is given without {} to start from", g.mask.empty() ? "strength" : "mask",
        network.makes_images ? "image=FILE" : "video=FILE");
  check(g.video.empty() || (!network.makes_images && !takes_images), "[generate] this model {}",
        network.makes_images
            ? "makes images: it starts from image=FILE, not from a video"
            : "generates from its images: a model for text to video starts from a video");
  check(!takes_images || (g.mask.empty() && !g.strength.given),
        "[generate] {} has no meaning for a model that generates videos from images",
        g.mask.empty() ? "strength" : "mask");
}

/// The part of the steps that is run if the configuration does not say.
double default_strength(const sample::StartFrames& start, bool is_image) {
  return start.has_mask() ? 1.0 : is_image ? 0.6 : 0.8;
}

void set_sizes(const config::Loaded& loaded, int64_t most, const Job& job,
               sample::GenerateRequest& request) {
  Dims given = request.start.frames.shape.dims;
  if (request.start.is_given()) {
    request.num_frames = given[0];
  } else {
    given = request.controls.pictures.front().picture.shape.dims;
    given.insert(given.begin(), 1);
  }
  if (loaded.is_set("height") || loaded.is_set("width")) {
    return;
  }
  const StartSize size = start_size(given[1], given[2], most);
  request.height = size.height;
  request.width = size.width;
  if (size.height != given[1] || size.width != given[2]) {
    job.notice(fmt::format("{} at {} x {} from frames of {} x {} (height x width)",
                           request.start.is_given() ? "starting" : "made", size.height, size.width,
                           given[1], given[2]));
  }
}

/// The value for picture i: one for all, or one for each.
template <typename T>
T value_at(const std::vector<T>& values, size_t i, size_t count, std::string_view key) {
  check(values.size() == 1 || values.size() == count,
        "[generate] {} has {} values for {} pictures in control_image, expected one for all or for "
        "each",
        key, values.size(), count);
  return values.size() == 1 ? values[0] : values.at(i);
}

/// The pictures of ControlNets, or the one of a network with channels for it.
void set_control(const config::Loaded& loaded, const Job& job, sample::GenerateRequest& request) {
  const config::GenerateConfig& g = loaded.config.generate;
  std::vector<std::string> files = g.control_image;
  std::erase(files, "");
  const auto read = [&](const std::string& file) {
    return read_given_image(file, "control_image", loaded.config, job);
  };
  const bool has_controlnet =
      std::ranges::any_of(g.controlnet, [](const std::string& name) { return !name.empty(); });
  if (!has_controlnet) {
    check(files.size() <= 1,
          "[generate] control_image has {} pictures, expected one\n  several belong to "
          "ControlNets: controlnet=[A, B]",
          files.size());
    request.control_image = files.empty() ? HostArray() : read(files.front());
    return;
  }
  request.controls.guess_mode = g.guess_mode;
  for (size_t i = 0; i < files.size(); ++i) {
    const media::ControlRecipe recipe{
        .kind = media::control_kind(value_at(g.control_kind, i, files.size(), "control_kind")),
        .low = g.canny_low,
        .high = g.canny_high,
        .deviation = g.control_blur};
    request.controls.pictures.push_back(
        {.picture = media::control_picture(read(files[i]), recipe),
         .scale = value_at(g.control_scale, i, files.size(), "control_scale"),
         .start = value_at(g.control_start, i, files.size(), "control_start"),
         .end = value_at(g.control_end, i, files.size(), "control_end")});
  }
}

}  // namespace

StartSize start_size(int64_t height, int64_t width, int64_t most) {
  constexpr int64_t kUnit = 16;
  const double area = static_cast<double>(height) * static_cast<double>(width);
  const double scale = std::min(1.0, std::sqrt(static_cast<double>(most) / area));
  const auto side = [&](int64_t pixels) {
    const auto scaled = static_cast<int64_t>(static_cast<double>(pixels) * scale + 1e-9);
    return std::max(scaled / kUnit, int64_t{1}) * kUnit;
  };
  return {.height = side(height), .width = side(width)};
}

void set_given_frames(const config::Loaded& loaded, const networks::Sizes& network,
                      bool expand_timesteps, const Job& job, sample::GenerateRequest& request) {
  const config::GenerateConfig& g = loaded.config.generate;
  const bool takes_images =
      !network.makes_images && (expand_timesteps || network.condition_channels() > 0);
  check_together(g, network, takes_images);
  const std::string& image = g.image.empty() ? g.image_url : g.image;
  HostArray picture =
      read_given_image(image, g.image.empty() ? "image_url" : "image", loaded.config, job);
  if (!network.makes_images) {
    request.images = {
        .first = std::move(picture),
        .last = read_given_image(g.last_image_url, "last_image_url", loaded.config, job)};
  } else if (!picture.bytes.empty()) {
    picture.shape.dims.insert(picture.shape.dims.begin(), 1);
    request.start.frames = std::move(picture);
  }
  set_control(loaded, job, request);
  if (!g.video.empty()) {
    request.start.frames = read_given_video(g.video, loaded, job);
  }
  if (!request.start.is_given()) {
    if (request.controls.is_given()) {
      set_sizes(loaded, request.height * request.width, job, request);
    }
    return;
  }
  if (!g.mask.empty()) {
    request.start.mask = media::luminance(read_given_image(g.mask, "mask", loaded.config, job));
    request.start.mask_blur = g.mask_blur;
  }
  request.start.strength =
      g.strength.given ? g.strength.value : default_strength(request.start, network.makes_images);
  set_sizes(loaded, request.height * request.width, job, request);
}

}  // namespace kinema::resolve
