#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "io/scratch.h"
#include "kinema/data/clip_list.h"
#include "kinema/io/atomic_write.h"
#include "kinema/media/image.h"
#include "kinema/media/video.h"

namespace kinema::data {

/// A folder whose files start with the bytes of a reference clip.
class ClipFolder {
 public:
  const std::filesystem::path& path() const { return scratch_.path(); }
  std::filesystem::path operator/(const std::string& name) const { return path() / name; }

  void clip(const std::string& name) const {
    std::filesystem::create_directories((path() / name).parent_path());
    std::filesystem::copy_file(io::golden("dataset/videos/clip_00.mp4"), path() / name);
  }
  void captioned(const std::string& name, const std::string& caption = "x") const {
    clip(name);
    text(std::filesystem::path(name).replace_extension(".txt"), caption);
  }
  void text(const std::string& name, const std::string& words) const {
    std::filesystem::create_directories((path() / name).parent_path());
    io::write_file(path() / name, words);
  }
  /// A video of uniform frames at a rate, with a caption.
  void video(const std::string& name, int64_t frames, double fps, int64_t height = 16,
             int64_t width = 32) const {
    HostArray pixels(Shape{DType::U8, {frames, height, width, 3}});
    const size_t each = static_cast<size_t>(height * width * 3);
    for (size_t i = 0; i < pixels.bytes.size(); ++i) {
      pixels.as<uint8_t>()[i] = static_cast<uint8_t>(20 + 10 * (i / each % 20));
    }
    media::write_mp4(path() / name, pixels, {.fps = fps, .crf = 4, .preset = "ultrafast"});
    text(std::filesystem::path(name).replace_extension(".txt"), name);
  }
  void image(const std::string& name) const {
    std::filesystem::create_directories((path() / name).parent_path());
    HostArray pixels(Shape{DType::U8, {16, 32, 3}});
    media::write_png(path() / name, pixels);
    text(std::filesystem::path(name).replace_extension(".txt"), "a picture");
  }

  /// Clips by name, with caption or problem; then the ignored files.
  std::map<std::string, std::string> list(const ListOptions& options = {
                                              .missing = MissingClip::Keep}) const {
    std::map<std::string, std::string> out;
    const Listing listing = list_folder(path(), options);
    for (const CaptionedClip& each : listing.clips) {
      out[each.path.lexically_normal().lexically_relative(path().lexically_normal()).string()] =
          each.problem.empty() ? each.caption : "! " + each.problem;
    }
    for (const SkippedFile& each : listing.left_out) {
      out[each.file] = "- " + each.reason;
    }
    return out;
  }

 private:
  io::Scratch scratch_;
};

}  // namespace kinema::data
