#include "kinema/resolve/animation.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <filesystem>
#include <utility>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/core/folders.h"
#include "kinema/encoders/control_video.h"
#include "kinema/media/control_picture.h"
#include "kinema/media/image.h"
#include "kinema/media/media_name.h"
#include "kinema/media/video.h"
#include "kinema/resolve/given_frames.h"
#include "kinema/sample/latents.h"

namespace kinema::resolve {
namespace {

namespace fs = std::filesystem;

/// A file by one of two names of its key, or in the folder.
struct GivenName {
  std::string_view key;
  std::string path;  // empty: not given
};

GivenName one_of(std::string_view key, const std::string& value, std::string_view other,
                 const std::string& other_value) {
  check(value.empty() || other_value.empty() || value == other_value,
        "[generate] {} is {}, {} {}: they are names of the same key\n  give only one of them", key,
        value, other, other_value);
  return value.empty() ? GivenName{other, other_value} : GivenName{key, value};
}

struct AnimateNames {
  GivenName image, poses, faces, background, mask;
};

AnimateNames names_of(const config::GenerateConfig& g) {
  AnimateNames out{
      .image = one_of("image", g.image.empty() ? g.image_url : g.image, "reference_image_path",
                      g.reference_image_path),
      .poses = one_of("pose_video", g.pose_video, "pose_video_path", g.pose_video_path),
      .faces = one_of("face_video", g.face_video, "face_video_path", g.face_video_path),
      .background = one_of("background_video", g.background_video, "background_video_path",
                           g.background_video_path),
      .mask = one_of("mask_video", g.mask_video, "mask_video_path", g.mask_video_path)};
  if (g.animate_folder.empty()) {
    return out;
  }
  const fs::path folder = g.animate_folder;
  std::error_code ignored;
  check(fs::is_directory(folder, ignored), "[generate] animate_folder {} {}", folder.string(),
        not_a_folder(folder));
  const bool replaces = g.mode != "animate";
  const auto take = [&](GivenName& to, const char* file, bool needed) {
    if (!to.path.empty()) {
      return;
    }
    const bool exists = fs::exists(folder / file, ignored);
    check(
        exists || !needed,
        "[generate] animate_folder {} has no {}\n  Wan2.2's preprocess_data.py writes it; {}=FILE "
        "takes another",
        folder.string(), file, to.key);
    to.path = exists ? (folder / file).string() : "";
  };
  take(out.image, "src_ref.png", true);
  take(out.poses, "src_pose.mp4", true);
  take(out.faces, "src_face.mp4", true);
  if (replaces) {
    take(out.background, "src_bg.mp4", false);
    take(out.mask, "src_mask.mp4", false);
  }
  return out;
}

void check_mode(const config::GenerateConfig& g, const AnimateNames& names) {
  check(g.mode != "replace" || !names.background.path.empty(),
        "[generate] mode is replace, but there is no background_video of the person that is "
        "replaced\n  set background_video=FILE and mask_video=FILE, or mode=animate");
  check(g.mode != "animate" || (names.background.path.empty() && names.mask.path.empty()),
        "[generate] mode is animate, but {} is given, which belongs to mode=replace",
        names.background.path.empty() ? names.mask.key : names.background.key);
  // Those without meaning beside them.
  for (const auto& [key, is_given] : {std::pair{"video", !g.video.empty()},
                                      {"mask", !g.mask.empty()},
                                      {"strength", g.strength.given},
                                      {"control_video", !g.control_video.empty()},
                                      {"control_mask", !g.control_mask.empty()},
                                      {"control_image", !g.control_image.empty()},
                                      {"reference_images", !g.reference_images.empty()},
                                      {"last_image_url", !g.last_image_url.empty()}}) {
    check(!is_given,
          "[generate] {} has no meaning for a model that animates a picture\n  it takes image, "
          "pose_video and face_video, and to replace a person background_video and mask_video",
          key);
  }
}

/// The first frames of a video: at the rate fps if that is given, else all; `most`: at most so
/// many.
media::Video read_frames(const GivenName& name, const config::Loaded& loaded, int64_t most) {
  check(!media::is_image_name(name.path), "[generate] {} is the picture {}, expected a video",
        name.key, name.path);
  media::ReadVideoOptions options{
      .max_frames = most,
      .background = media::read_background(loaded.config.data.alpha_background)};
  // At the file's own rate all frames are taken, whatever its time stamps.
  constexpr double kSameRate = 1e-3;
  const auto fps = static_cast<double>(loaded.config.generate.fps);
  if (loaded.is_set("fps") &&
      std::abs(media::probe_video(fs::path(name.path)).fps - fps) > kSameRate) {
    options.fps = fps;
  }
  return media::read_video(fs::path(name.path), options);
}

/// The luminance of a video, u8 [f, h, w].
HostArray luminance_of(HostArray video) {
  const Dims d = video.shape.dims;
  video.shape.dims = {d[0] * d[1], d[2], 3};
  HostArray out = media::luminance(video);
  out.shape.dims = {d[0], d[1], d[2]};
  return out;
}

/// The masks of a video, u8 [f, h, w], or of a picture for all frames.
HostArray read_masks(const GivenName& name, const config::Loaded& loaded, int64_t frames,
                     const Job& job) {
  if (!media::is_image_name(name.path)) {
    return luminance_of(read_frames(name, loaded, frames).frames);
  }
  HostArray picture = read_given_image(name.path, name.key, loaded.config, job);
  picture.shape.dims.insert(picture.shape.dims.begin(), 1);
  return sample::take_rows(luminance_of(std::move(picture)),
                           std::vector<int64_t>(static_cast<size_t>(frames), 0));
}

void set_animated_size(const config::Loaded& loaded, const Job& job,
                       sample::GenerateRequest& request) {
  if (loaded.is_set("height") || loaded.is_set("width")) {
    return;
  }
  constexpr int64_t kUnit = 16;
  const Dims& d = request.files.animation.poses.shape.dims;
  const encoders::PictureSize size = encoders::control_size(
      {.height = d[1], .width = d[2]}, {.height = request.height, .width = request.width}, kUnit);
  request.height = size.height;
  request.width = size.width;
  job.notice(fmt::format("making {} x {} of poses of {} x {} (height x width)", size.height,
                         size.width, d[1], d[2]));
}

}  // namespace

bool is_animate(const networks::Sizes& network) {
  return networks::find_entry(network.named, networks::Entry::POSES) != nullptr;
}

void set_animation(const config::Loaded& loaded, const Job& job, sample::GenerateRequest& request) {
  const config::GenerateConfig& g = loaded.config.generate;
  const AnimateNames names = names_of(g);
  check_mode(g, names);
  sample::Animation& out = request.files.animation;
  out.segment_frames = g.segment_frame_length;
  out.shared_frames = g.prev_segment_conditioning_frames;
  request.files.images.first =
      read_given_image(names.image.path, names.image.key, loaded.config, job);
  if (names.poses.path.empty() || names.faces.path.empty()) {
    check(names.poses.path.empty() || !names.faces.path.empty(),
          "[generate] this model follows a face: set face_video=FILE\n  Wan2.2's "
          "preprocess_data.py cuts it out of the driving video (src_face.mp4)");
    fail(
        "[generate] this model follows drawn poses: set pose_video=FILE and face_video=FILE, or "
        "animate_folder=FOLDER\n  Wan2.2's preprocess_data.py makes them of a driving video");
  }
  // Of a configuration file num_frames is a limit, because MaxDiffusion's has one for any video.
  constexpr int64_t kMost = 1 << 16;
  const bool is_limited = loaded.is_set("num_frames");
  media::Video poses = read_frames(names.poses, loaded, is_limited ? g.num_frames : kMost);
  const int64_t frames = poses.frames.shape.dims.at(0);
  check(!on_command_line(loaded, "num_frames") || frames == g.num_frames,
        "[generate] {} has {} frames, but num_frames is {}\n  num_frames={} takes all",
        names.poses.path, frames, g.num_frames, frames);
  out.poses = std::move(poses.frames);
  out.faces = read_frames(names.faces, loaded, frames).frames;
  if (!names.background.path.empty()) {
    out.background = read_frames(names.background, loaded, frames).frames;
  }
  if (!names.mask.path.empty()) {
    out.mask = read_masks(names.mask, loaded, frames, job);
  }
  request.num_frames = frames;
  if (!loaded.is_set("fps")) {
    request.fps = poses.fps;
  }
  set_animated_size(loaded, job, request);
  job.notice(fmt::format("{} {} frames of {}, at {:g} a second",
                         out.background.bytes.empty() ? "animating" : "replacing a person in",
                         frames, names.poses.path,
                         request.fps.value_or(static_cast<double>(g.fps))));
}

void check_not_animated(const config::GenerateConfig& g) {
  check(g.mode == "auto",
        "[generate] mode is {}, but this model follows no poses and faces\n  it belongs to "
        "Wan2.2-Animate",
        g.mode);
  for (const auto& [key, value] : {std::pair{"pose_video", &g.pose_video},
                                   {"face_video", &g.face_video},
                                   {"background_video", &g.background_video},
                                   {"mask_video", &g.mask_video},
                                   {"animate_folder", &g.animate_folder},
                                   {"pose_video_path", &g.pose_video_path},
                                   {"face_video_path", &g.face_video_path},
                                   {"background_video_path", &g.background_video_path},
                                   {"mask_video_path", &g.mask_video_path},
                                   {"reference_image_path", &g.reference_image_path}}) {
    check(value->empty(),
          "[generate] {} is {}, but this model follows no poses and faces: expected it empty\n  it "
          "belongs to Wan2.2-Animate",
          key, *value);
  }
}

void set_animate_defaults(const config::Loaded& loaded, const Job& job,
                          sample::GenerateRequest& request) {
  constexpr int64_t kSteps = 20;  // of the release
  if (!loaded.is_set("num_inference_steps")) {
    request.num_inference_steps = kSteps;
  }
  if (!loaded.is_set("prompt") && !loaded.is_set("prompt_file")) {
    // "The person in the video makes movements": that of the release.
    request.prompts = {"\u89c6\u9891\u4e2d\u7684\u4eba\u5728\u505a\u52a8\u4f5c"};
    job.notice(fmt::format("no prompt: that of the release, {}", request.prompts.front()));
  }
}

}  // namespace kinema::resolve
