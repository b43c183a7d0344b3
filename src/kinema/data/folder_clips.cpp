#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <iterator>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

#include "kinema/core/errno_text.h"
#include "kinema/core/error.h"
#include "kinema/data/clip_file.h"
#include "kinema/data/clip_list.h"
#include "kinema/data/clip_set.h"
#include "kinema/data/dataset_file.h"
#include "kinema/data/loss_weights.h"
#include "kinema/data/set_rules.h"
#include "kinema/data/tar_clips.h"
#include "kinema/io/hash.h"
#include "kinema/io/mapped_file.h"
#include "kinema/media/image.h"
#include "kinema/media/media_name.h"

namespace kinema::data {
namespace {

namespace fs = std::filesystem;

/// Throws an Error unless a control clip has as many frames as the clip that is made of it: parts
/// of both are then of the same time. A picture is the control of a picture.
void check_frames(const fs::path& control, const fs::path& clip, const ClipFormat& format) {
  const auto frames = [&](const fs::path& path) {
    const io::MappedFile file = io::MappedFile::open(path);
    return frames_in(measure_clip(file.bytes(), file.path()), format);
  };
  const int64_t own = frames(control);
  const int64_t wanted = frames(clip);
  check(own == wanted, "[data] the control {} has {} frames, but its clip {} has {}",
        control.string(), own, clip.filename().string(), wanted);
}

/// The red channel of a control video's mask, f32 [f, h, w] in [0, 1]: a video, or one picture for
/// all frames.
HostArray control_mask(const CaptionedClip& of, const ClipFormat& format,
                       const ClipWindow& window) {
  const bool is_picture = media::is_image_name(of.control_mask.string());
  ClipFormat own = format;
  own.num_frames = is_picture ? 1 : format.num_frames;
  if (!is_picture) {
    check_frames(of.control_mask, of.path, format);
  }
  const HostArray pixels = read_clip(of.control_mask, own, window);
  HostArray out(Shape{DType::F32, {format.num_frames, format.height, format.width}});
  const auto from = pixels.as<float>();
  const auto to = out.as<float>();
  const auto red = static_cast<size_t>(own.num_frames * format.height * format.width);
  for (size_t i = 0; i < to.size(); ++i) {
    to[i] = std::clamp((from[i % red] + 1.0F) / 2.0F, 0.0F, 1.0F);
  }
  return out;
}

class FolderClips : public ClipSet {
 public:
  FolderClips(fs::path folder, Listing listing)
      : folder_(std::move(folder)),
        clips_(std::move(listing.clips)),
        left_out_(std::move(listing.left_out)),
        notes_(std::move(listing.notes)) {}

  int64_t size() const override { return static_cast<int64_t>(clips_.size()); }
  std::string name(int64_t clip) const override { return at(clip).path.filename().string(); }
  std::string where(int64_t clip) const override {
    const fs::path below = at(clip).path.lexically_relative(folder_);
    // A file that is listed with a path outside of the folder keeps that path.
    return below.empty() || *below.begin() == ".." ? at(clip).path.string() : below.string();
  }
  std::string path(int64_t clip) const override { return at(clip).path.string(); }
  std::string cause(int64_t clip) const override { return at(clip).cause; }
  std::string caption(int64_t clip) const override { return at(clip).caption; }
  ClipSize measure(int64_t clip) const override {
    const CaptionedClip& of = usable(clip);
    const io::MappedFile file = io::MappedFile::open(of.path);
    const ClipSize out = measure_clip(file.bytes(), file.path());
    if (!of.mask.empty()) {
      const io::MappedFile mask = io::MappedFile::open(of.mask);
      check_mask(mask.bytes(), mask.path(), out);
    }
    return out;
  }
  HostArray read(int64_t clip, const ClipFormat& format, const ClipWindow& window) const override {
    return read_clip(usable(clip).path, format, window);
  }
  HostArray read_mask(int64_t clip, const ClipFormat& format, const ClipWindow& window,
                      bool alpha) const override {
    const CaptionedClip& of = usable(clip);
    if (of.mask.empty()) {
      const io::MappedFile file = io::MappedFile::open(of.path);
      return alpha ? read_alpha_mask(file.bytes(), file.path(), format, window) : HostArray{};
    }
    const io::MappedFile file = io::MappedFile::open(of.mask);
    return data::read_mask(file.bytes(), file.path(), measure(clip), format, window);
  }
  bool has_masks() const override {
    return std::ranges::any_of(clips_,
                               [](const CaptionedClip& clip) { return !clip.mask.empty(); });
  }
  ClipControl read_control(int64_t clip, const ClipFormat& format,
                           const ClipWindow& window) const override {
    const CaptionedClip& of = usable(clip);
    ClipControl out;
    if (!of.control.empty()) {
      try {
        check_frames(of.control, of.path, format);
        out.frames = read_clip(of.control, format, window);
      } catch (const Error& error) {
        fail("[data] the control (or source) of {}: {}", of.path.filename().string(), error.what());
      }
    }
    if (!of.control_mask.empty()) {
      out.mask = control_mask(of, format, window);
    }
    const auto picture = [&](const fs::path& path) {
      const io::MappedFile file = io::MappedFile::open(path);
      return media::read_image(file.bytes(), file.path(), format.background);
    };
    std::ranges::transform(of.references, std::back_inserter(out.references), picture);
    return out;
  }
  bool has_controls() const override {
    return std::ranges::any_of(clips_, [](const CaptionedClip& clip) {
      return !clip.control.empty() || !clip.control_mask.empty() || !clip.references.empty();
    });
  }
  std::string stamp(int64_t clip) const override {
    const CaptionedClip& of = usable(clip);
    std::string out = stamps_.of(of.path);
    for (const auto& [what, path] : of.beside()) {
      out += fmt::format("; {} {}", what, stamps_.of(path));
    }
    return out;
  }
  std::string hash(int64_t clip) const override {
    const CaptionedClip& of = usable(clip);
    std::string out = io::hash_file(of.path);
    for (const auto& [what, path] : of.beside()) {
      out += fmt::format(" with {} {}", what, io::hash_file(path));
    }
    return of.beside().empty() ? out : io::hash_bytes(std::as_bytes(std::span(out)));
  }
  void verify(int64_t clip) const override {
    const io::MappedFile file = io::MappedFile::open(usable(clip).path);
    verify_clip(file.bytes(), file.path());
  }
  std::vector<SkippedFile> left_out() const override { return left_out_; }
  std::vector<std::string> notes() const override { return notes_; }

 private:
  const CaptionedClip& at(int64_t clip) const { return clips_.at(static_cast<size_t>(clip)); }
  const CaptionedClip& usable(int64_t clip) const {
    check(at(clip).problem.empty(), "{}", at(clip).problem);
    return at(clip);
  }

  fs::path folder_;
  std::vector<CaptionedClip> clips_;
  std::vector<SkippedFile> left_out_;
  std::vector<std::string> notes_;
  FileStamps stamps_;
};

}  // namespace

const std::vector<SetRules>& ClipSet::sets() const {
  static const std::vector<SetRules> none;
  return none;
}

std::unique_ptr<ClipSet> folder_clips(const fs::path& folder, const std::string& caption_column,
                                      bool keep_bad, bool images, const std::string& split) {
  const ListOptions options{.caption_column = caption_column,
                            .missing = keep_bad ? MissingClip::Keep : MissingClip::Fail,
                            .images = images,
                            .split = split};
  return is_dataset_file(folder) ? dataset_clips(read_dataset_file(folder), options, {})
                                 : folder_clips(folder, options);
}

std::unique_ptr<ClipSet> folder_clips(const fs::path& folder, const ListOptions& options) {
  if (options.list.empty() && contains_tars(folder)) {
    check(options.mask_folder.empty(),
          "[data] mask_dir ({}) is for folders of clips, but {} has "
          "tars\n  alpha_mask=true uses the pictures' alpha channels",
          options.mask_folder.string(), folder.string());
    return tar_clips(folder, options);
  }
  return std::make_unique<FolderClips>(folder, list_folder(folder, options));
}

std::string FileStamps::of(const fs::path& file) const {
  struct stat status {};
  check(::lstat(file.c_str(), &status) == 0, "[data] {}: {}", file.string(), errno_text(errno));
  fs::path path;
  if (S_ISLNK(status.st_mode)) {
    std::error_code error;
    path = fs::canonical(file, error);
    check(!error && ::stat(path.c_str(), &status) == 0, "[data] {}: {}", file.string(),
          error ? errno_text(error) : errno_text(errno));
  } else {
    path = canonical(file.parent_path()) / file.filename();
  }
  // The epoch of the standard library's file times, which stamps of earlier versions have.
  const std::chrono::sys_time<std::chrono::nanoseconds> changed{
      std::chrono::seconds(status.st_mtim.tv_sec) +
      std::chrono::nanoseconds(status.st_mtim.tv_nsec)};
  const auto since = std::chrono::file_clock::from_sys(changed).time_since_epoch();
  return fmt::format("{} of {} bytes at {}, {}", path.string(), status.st_size,
                     std::chrono::nanoseconds(since).count(), io::hash_sample(path));
}

const fs::path& FileStamps::canonical(const fs::path& folder) const {
  const std::lock_guard lock(mutex_);
  const auto [found, fresh] = folders_.try_emplace(folder.native());
  if (fresh) {
    std::error_code error;
    found->second = fs::canonical(folder.empty() ? fs::path(".") : folder, error);
    if (error) {
      folders_.erase(found);
      fail("[data] {}: {}", folder.string(), errno_text(error));
    }
  }
  return found->second;  // references stay valid: nothing else is erased
}

std::string file_stamp(const fs::path& file) { return FileStamps().of(file); }

}  // namespace kinema::data
