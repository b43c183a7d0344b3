#include "kinema/resolve/given_frames.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "kinema/core/error.h"
#include "kinema/data/clip_file.h"
#include "kinema/encoders/control_video.h"
#include "kinema/encoders/reference_image.h"
#include "kinema/io/mapped_file.h"
#include "kinema/media/blur.h"
#include "kinema/media/control_picture.h"
#include "kinema/media/image.h"
#include "kinema/media/media_name.h"
#include "kinema/media/video.h"
#include "kinema/model_files/family.h"
#include "kinema/remote/web_file.h"
#include "kinema/resolve/animation.h"
#include "kinema/sample/latents.h"

namespace kinema::resolve {
namespace {

namespace fs = std::filesystem;

/// Sides are multiples of it, unless they are given.
constexpr int64_t kUnit = 16;

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

/// A mask u8 [h, w] blurred with a Gaussian of this standard deviation (mask_blur, in pixels), as
/// when the result is pasted into the picture.
HostArray blurred(const HostArray& mask, double deviation) {
  if (deviation <= 0) {
    return mask;
  }
  const auto given = mask.as<uint8_t>();
  const std::vector<float> values(given.begin(), given.end());
  const std::vector<float> soft =
      media::gaussian_blur(values, mask.shape.dims[0], mask.shape.dims[1], deviation);
  HostArray out(mask.shape);
  std::ranges::transform(soft, out.as<uint8_t>().begin(), [](float value) {
    return static_cast<uint8_t>(std::clamp<long>(std::lround(value), 0, 255));
  });
  return out;
}

/// The first frames of a video at the rate of the result; `key` names it in errors.
HostArray read_given_video(const std::string& path, std::string_view key,
                           const config::Loaded& loaded, const Job& job) {
  const config::GenerateConfig& g = loaded.config.generate;
  check(!media::is_image_name(path), "[generate] {} is the picture {}, expected a video{}", key,
        path, key == "video" ? fmt::format("\n  image={} starts from it", path) : "");
  const auto rate = static_cast<double>(g.fps);
  const int64_t there = [&] {
    const io::MappedFile file = io::MappedFile::open(path);
    return data::frames_in(data::measure_clip(file.bytes(), path), {.fps = rate});
  }();
  media::Video video = media::read_video(
      fs::path(path), {.fps = rate,
                       .max_frames = std::min(g.num_frames, std::max<int64_t>(there, 1)),
                       .background = media::read_background(loaded.config.data.alpha_background)});
  const int64_t frames = video.frames.shape.dims[0];
  constexpr int64_t kGroup = 4;  // frames of a latent frame of Wan's VAE
  check(frames == g.num_frames || !loaded.is_set("num_frames"),
        "[generate] {} has {} frames at {} a second (fps), but num_frames is {}\n  num_frames={} "
        "is the most of this model that it has",
        path, frames, g.fps, g.num_frames,
        (std::max<int64_t>(frames, 1) - 1) / kGroup * kGroup + 1);
  job.notice(fmt::format("{} {} frames of {}, at {} a second (fps)",
                         key == "video" ? "starting from" : fmt::format("{}:", key), frames, path,
                         g.fps));
  return std::move(video.frames);
}

/// Masks of a control video, u8 [f, h, w]: those of a video, or a picture for all frames.
HostArray read_control_mask(const std::string& path, int64_t frames, const config::Loaded& loaded,
                            const Job& job) {
  const bool is_picture = media::is_image_name(path);
  HostArray video = is_picture ? read_given_image(path, "control_mask", loaded.config, job)
                               : read_given_video(path, "control_mask", loaded, job);
  if (is_picture) {
    video.shape.dims.insert(video.shape.dims.begin(), 1);
  }
  const Dims d = video.shape.dims;
  const Dims dims{d[0], d[1], d[2]};
  video.shape.dims = {d[0] * d[1], d[2], 3};
  HostArray out = media::luminance(video);
  out.shape.dims = dims;
  if (is_picture) {
    out = sample::take_rows(out, std::vector<int64_t>(static_cast<size_t>(frames), 0));
  }
  return out;
}

/// The control video and its masks; the scales of all control.
void set_control_video(const config::Loaded& loaded, const Job& job,
                       sample::GenerateRequest& request) {
  const config::GenerateConfig& g = loaded.config.generate;
  sample::GivenFiles& files = request.files;
  files.control_scale = g.control_scale;
  files.control_start = g.control_start;
  files.control_end = g.control_end;
  if (g.control_video.empty()) {
    check(g.control_mask.empty(),
          "[generate] control_mask is given without the control_video whose frames it marks\n  "
          "mask=FILE with video=FILE or image=FILE is that of the part that is made");
    return;
  }
  files.control_video = read_given_video(g.control_video, "control_video", loaded, job);
  const Dims& given = files.control_video.shape.dims;
  request.num_frames = given[0];
  if (!g.control_mask.empty()) {
    files.control_mask = read_control_mask(g.control_mask, given[0], loaded, job);
    const Dims& mask = files.control_mask.shape.dims;
    check(mask == Dims({given[0], given[1], given[2]}),
          "[generate] control_mask has {} frames of {} x {} (height x width), but control_video {} "
          "of {} x {}\n  expected the same numbers and sizes",
          mask[0], mask[1], mask[2], given[0], given[1], given[2]);
  }
  if (!loaded.is_set("height") && !loaded.is_set("width")) {
    const encoders::PictureSize size =
        encoders::control_size({.height = given[1], .width = given[2]},
                               {.height = request.height, .width = request.width}, kUnit);
    request.height = size.height;
    request.width = size.width;
    job.notice(fmt::format("making {} x {} of a control video of {} x {} (height x width)",
                           size.height, size.width, given[1], given[2]));
  }
}

/// What `image` is for a model.
enum class ImageUse : uint8_t { START, FIRST_FRAME, REFERENCE };

ImageUse image_use(const networks::Sizes& network, const sample::PipelineFolder& folder) {
  const model_files::PipelineClass* known = model_files::pipeline_class(folder.class_name);
  if (known != nullptr && known->edits_image) {
    return ImageUse::REFERENCE;
  }
  const bool takes_frames =
      !network.makes_images &&
      std::ranges::any_of(network.named, [&](const networks::NamedInput& input) {
        return !input.optional || folder.expand_timesteps;
      });
  return takes_frames ? ImageUse::FIRST_FRAME : ImageUse::START;
}

void check_together(const config::GenerateConfig& g, const networks::Sizes& network, ImageUse use) {
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
  check(g.video.empty() || (!network.makes_images && use == ImageUse::START),
        "[generate] this model {}",
        network.makes_images
            ? "makes images: it starts from image=FILE, not from a video"
            : "generates from its images: a model for text to video starts from a video");
  check(use == ImageUse::START || (g.mask.empty() && !g.strength.given),
        "[generate] {} has no meaning for a model that {}", g.mask.empty() ? "strength" : "mask",
        use == ImageUse::REFERENCE ? "edits whole images by the prompt"
                                   : "generates videos from images");
  check(use != ImageUse::REFERENCE || !image || g.reference_images.empty(),
        "[generate] image and reference_images are both given: this model edits one picture\n"
        "  give only one of them");
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
    const sample::GivenFiles& files = request.files;
    given = (files.control_pictures.empty() ? files.control_image : files.control_pictures.front())
                .shape.dims;
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

/// Leaves of the picture and its mask the region around the mask, which is made at the request's
/// size.
void crop_to_mask(int64_t padding, const Job& job, sample::GenerateRequest& request) {
  sample::StartFrames& start = request.start;
  const Dims& dims = start.frames.shape.dims;
  check(dims[0] == 1, "[generate] mask_padding is for pictures, but {} frames are given", dims[0]);
  check(
      start.mask.shape.dims == Dims({dims[1], dims[2]}),
      "[generate] mask_padding crops the picture, {} x {}, and its mask, {} x {} (height x width), "
      "to the same region\n  give a mask of the picture's size",
      dims[1], dims[2], start.mask.shape.dims[0], start.mask.shape.dims[1]);
  HostArray picture = std::move(start.frames);
  picture.shape.dims.erase(picture.shape.dims.begin());
  const sample::CropRegion region = sample::crop_region(blurred(start.mask, start.mask_blur),
                                                        request.height, request.width, padding);
  start.frames = sample::cropped(picture, region);
  start.frames.shape.dims.insert(start.frames.shape.dims.begin(), 1);
  HostArray whole = std::move(start.mask);
  start.mask = sample::cropped(whole, region);
  start.crop = {.picture = std::move(picture),
                .mask = std::move(whole),
                .region = region,
                .blur = start.mask_blur};
  job.notice(fmt::format(
      "making {} x {} of the region of {} x {} at row {}, column {} around the "
      "mask (height x width)",
      request.height, request.width, region.height, region.width, region.top, region.left));
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

/// True for a network with a ControlNet that sees latents of its picture (Z-Image).
bool follows_latents(const networks::Sizes& network) {
  return std::ranges::any_of(network.named, [](const networks::NamedInput& input) {
    return input.made_of == networks::MadeOf::FOLLOWED_IMAGE ||
           input.made_of == networks::MadeOf::FOLLOWED_AND_KEPT;
  });
}

/// The pictures of ControlNets, or the one of a network with channels for it.
void set_control_image(const config::Loaded& loaded, const networks::Sizes& network,
                       const sample::PipelineFolder& folder, const Job& job,
                       sample::GenerateRequest& request) {
  const config::GenerateConfig& g = loaded.config.generate;
  sample::GivenFiles& files = request.files;
  std::vector<std::string> names = g.control_image;
  std::erase(names, "");
  const auto read = [&](const std::string& name) {
    return read_given_image(name, "control_image", loaded.config, job);
  };
  const bool has_controlnet =
      std::ranges::any_of(g.controlnet, [](const std::string& name) { return !name.empty(); }) ||
      !folder.controlnets.empty() ||
      networks::find_entry(network.named, networks::Entry::PICTURES) != nullptr;
  if (!has_controlnet) {
    check(names.size() <= 1,
          "[generate] control_image has {} pictures, expected one\n  several belong to "
          "ControlNets: controlnet=[A, B]",
          names.size());
    files.control_image = names.empty() ? HostArray() : read(names.front());
    return;
  }
  files.guess_mode = g.guess_mode;
  for (size_t i = 0; i < names.size(); ++i) {
    const media::ControlRecipe recipe{
        .kind = media::control_kind(value_at(g.control_kind, i, names.size(), "control_kind")),
        .low = g.canny_low,
        .high = g.canny_high,
        .deviation = g.control_blur};
    files.control_pictures.push_back(media::control_picture(read(names[i]), recipe));
  }
  if (follows_latents(network)) {
    files.control_image = std::move(files.control_pictures.at(0));
    files.control_pictures.clear();
  }
}

/// An edited picture has the size at which the reference is encoded; one that keeps its size is
/// scaled down to the model's default area.
void set_sizes_of_reference(const config::Loaded& loaded, const Job& job,
                            sample::GenerateRequest& request) {
  if (loaded.is_set("height") || loaded.is_set("width")) {
    return;
  }
  const Dims& given = request.files.references.front().shape.dims;
  const encoders::PictureSize encoded =
      encoders::reference_size(given[0], given[1], request.files.resizes_references, kUnit);
  const StartSize size =
      request.files.resizes_references
          ? StartSize{.height = encoded.height, .width = encoded.width}
          : start_size(encoded.height, encoded.width, request.height * request.width);
  request.height = size.height;
  request.width = size.width;
  job.notice(fmt::format("making {} x {} of a reference of {} x {} (height x width)", size.height,
                         size.width, given[0], given[1]));
}

}  // namespace

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

StartSize start_size(int64_t height, int64_t width, int64_t most) {
  const double area = static_cast<double>(height) * static_cast<double>(width);
  const double scale = std::min(1.0, std::sqrt(static_cast<double>(most) / area));
  const auto side = [&](int64_t pixels) {
    const auto scaled = static_cast<int64_t>(static_cast<double>(pixels) * scale + 1e-9);
    return std::max(scaled / kUnit, int64_t{1}) * kUnit;
  };
  return {.height = side(height), .width = side(width)};
}

void set_given_frames(const config::Loaded& loaded, const networks::Sizes& network,
                      const sample::PipelineFolder& folder, const Job& job,
                      sample::GenerateRequest& request) {
  const config::GenerateConfig& g = loaded.config.generate;
  if (is_animate(network)) {
    set_animation(loaded, job, request);
    return;
  }
  check_not_animated(g);
  const ImageUse use = image_use(network, folder);
  check_together(g, network, use);
  const std::string& image = g.image.empty() ? g.image_url : g.image;
  HostArray picture =
      read_given_image(image, g.image.empty() ? "image_url" : "image", loaded.config, job);
  for (const std::string& each : g.reference_images) {
    check(!each.empty(), "[generate] reference_images has an empty name, expected files");
    request.files.references.push_back(
        read_given_image(each, "reference_images", loaded.config, job));
  }
  request.files.resizes_references = g.resize_reference;
  if (use == ImageUse::REFERENCE && !picture.bytes.empty()) {
    request.files.references.push_back(std::move(picture));
  } else if (!network.makes_images) {
    request.files.images = {
        .first = std::move(picture),
        .last = read_given_image(g.last_image_url, "last_image_url", loaded.config, job)};
  } else if (!picture.bytes.empty()) {
    picture.shape.dims.insert(picture.shape.dims.begin(), 1);
    request.start.frames = std::move(picture);
  }
  set_control_image(loaded, network, folder, job, request);
  set_control_video(loaded, job, request);
  if (!g.video.empty()) {
    request.start.frames = read_given_video(g.video, "video", loaded, job);
  }
  if (!request.start.is_given()) {
    if (!request.files.control_pictures.empty() || follows_latents(network)) {
      set_sizes(loaded, request.height * request.width, job, request);
    } else if (network.makes_images && !request.files.references.empty()) {
      set_sizes_of_reference(loaded, job, request);
    }
    return;
  }
  if (!g.mask.empty()) {
    request.start.mask = media::luminance(read_given_image(g.mask, "mask", loaded.config, job));
    request.start.mask_blur = g.mask_blur;
    if (std::ranges::all_of(request.start.mask.as<uint8_t>(),
                            [](uint8_t value) { return value == 0; })) {
      job.notice(fmt::format("mask {} is black: no part of the picture is made", g.mask));
    }
  }
  request.start.strength =
      g.strength.given ? g.strength.value : default_strength(request.start, network.makes_images);
  set_sizes(loaded, request.height * request.width, job, request);
  if (g.mask_padding >= 0 && request.start.has_mask()) {
    crop_to_mask(g.mask_padding, job, request);
  }
}

}  // namespace kinema::resolve
