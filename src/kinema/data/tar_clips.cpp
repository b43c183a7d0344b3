#include "kinema/data/tar_clips.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <system_error>

#include "kinema/core/error.h"
#include "kinema/core/trimmed.h"
#include "kinema/data/clip_file.h"
#include "kinema/data/dataset_type.h"
#include "kinema/data/metadata.h"
#include "kinema/io/hash.h"
#include "kinema/io/json.h"
#include "kinema/io/mapped_file.h"
#include "kinema/media/media_name.h"

namespace kinema::data {
namespace {

namespace fs = std::filesystem;

std::string text_of(const io::TarMember& member) {
  return {reinterpret_cast<const char*>(member.bytes.data()), member.bytes.size()};
}

/// True for internal files of webdataset.
bool is_note(const std::string& name) {
  const std::string part = name.substr(0, name.find('/'));
  return part.size() >= 4 && part.starts_with("__") && part.ends_with("__");
}

struct TarClip {
  size_t tar = 0;
  io::TarMember member;
  std::string caption;
  std::string problem;
};

/// Why a sample has no clip.
std::string without_media(const TarSample& sample) {
  for (const auto& [ending, member] : sample.parts) {
    if (const std::string format = media::unread_image_name("x." + ending); !format.empty()) {
      return "a " + format + " picture, which is not supported";
    }
  }
  return "a sample without a video or an image";
}

class TarClips : public ClipSet {
 public:
  TarClips(const fs::path& root, const std::vector<fs::path>& paths, const ListOptions& options)
      : root_(root) {
    for (const fs::path& path : paths) {
      tars_.push_back(io::MappedFile::open(path));
      stamps_.push_back(file_stamp(path));
      const std::string& name = tars_.back().path();
      for (const TarSample& sample :
           group_samples(io::list_tar(tars_.back().bytes(), name), name)) {
        add(sample, options);
      }
    }
    check(!clips_.empty(),
          "[tar] {} holds no clips{}\n  expected webdataset samples: "
          "a.mp4 and a.txt (or a.json)",
          root.string(),
          left_out_.empty() ? "" : "; " + left_out_.front().file + ": " + left_out_.front().reason);
  }

  int64_t size() const override { return static_cast<int64_t>(clips_.size()); }
  std::string name(int64_t clip) const override {
    return fmt::format("{}/{}", fs::path(tars_[at(clip).tar].path()).filename().string(),
                       at(clip).member.name);
  }
  std::string where(int64_t clip) const override { return place(at(clip).tar, at(clip).member); }
  std::string caption(int64_t clip) const override { return at(clip).caption; }
  ClipSize measure(int64_t clip) const override {
    return measure_clip(usable(clip).member.bytes, name(clip));
  }
  HostArray read(int64_t clip, const ClipFormat& format, const ClipWindow& window) const override {
    return read_clip(usable(clip).member.bytes, name(clip), format, window);
  }
  HostArray read_mask(int64_t clip, const ClipFormat& format, const ClipWindow& window,
                      bool alpha) const override {
    return alpha ? read_alpha_mask(usable(clip).member.bytes, name(clip), format, window)
                 : HostArray{};
  }
  std::string stamp(int64_t clip) const override {
    return fmt::format("{} of {}", usable(clip).member.name, stamps_[at(clip).tar]);
  }
  std::string hash(int64_t clip) const override {
    return io::hash_bytes(usable(clip).member.bytes);
  }
  void verify(int64_t clip) const override { verify_clip(usable(clip).member.bytes, name(clip)); }
  std::vector<SkippedFile> left_out() const override { return left_out_; }

 private:
  const TarClip& at(int64_t clip) const { return clips_.at(static_cast<size_t>(clip)); }
  const TarClip& usable(int64_t clip) const {
    check(at(clip).problem.empty(), "{}", at(clip).problem);
    return at(clip);
  }

  std::string place(size_t tar, const io::TarMember& member) const {
    const fs::path path = fs::path(tars_[tar].path()).lexically_relative(root_);
    return fmt::format("{}/{}", path.string(), member.name);
  }

  /// Adds a sample of the last opened tar.
  void add(const TarSample& sample, const ListOptions& options) {
    const size_t tar = tars_.size() - 1;
    const io::TarMember* media = nullptr;
    bool image = false;
    for (const auto& [ending, member] : sample.parts) {
      const bool video = media::is_video_name("x." + ending);
      if (video ? media == nullptr || image
                : media == nullptr && media::is_image_name("x." + ending)) {
        media = &member;
        image = !video;
      }
    }
    if (media == nullptr || (image && !options.images)) {
      const io::TarMember& first = sample.parts.front().second;
      left_out_.push_back({place(tar, media == nullptr ? first : *media),
                           media == nullptr ? without_media(sample) : kImageOfOneFrame});
      return;
    }
    TarClip clip{tar, *media, "", ""};
    try {
      clip.caption = caption_of(sample, *media, options);
    } catch (const Error& error) {
      clip.problem = error.what();
      check(options.missing == MissingClip::Keep, "{}", clip.problem);
    }
    clips_.push_back(std::move(clip));
  }

  std::string caption_of(const TarSample& sample, const io::TarMember& media,
                         const ListOptions& options) const {
    const std::string where = place(tars_.size() - 1, media);
    const io::TarMember* txt = sample.find("txt");
    if (const io::TarMember* text = txt != nullptr ? txt : sample.find("caption")) {
      std::string caption(trimmed(text_of(*text)));
      check_caption(caption, where);
      return caption;
    }
    const io::TarMember* json = sample.find("json");
    check(json != nullptr, "[tar] {} has no caption: neither {}.txt nor {}.json is there", where,
          sample.key, sample.key);
    const io::Json fields = io::Json::parse(text_of(*json), where);
    for (const std::string& name : caption_names(options.caption_column)) {
      if (const io::Json* found = fields.find(name)) {
        return found->as_string();
      }
    }
    std::vector<std::string> names;
    for (const auto& [name, value] : fields.members()) {
      names.push_back(name.substr(0, 60));
    }
    names.resize(std::min<size_t>(names.size(), 12));
    fail("[tar] {} has no caption: {}.json has {}\n  caption_column=NAME names its field", where,
         sample.key, fmt::join(names, ", "));
  }

  fs::path root_;
  std::vector<io::MappedFile> tars_;
  std::vector<std::string> stamps_;
  std::vector<TarClip> clips_;
  std::vector<SkippedFile> left_out_;
};

bool is_tar(const std::string& name) { return fs::path(name).extension() == ".tar"; }

}  // namespace

const io::TarMember* TarSample::find(const std::string& ending) const {
  const auto found =
      std::ranges::find_if(parts, [&](const auto& part) { return part.first == ending; });
  return found == parts.end() ? nullptr : &found->second;
}

std::optional<std::pair<std::string, std::string>> key_and_ending(const std::string& name) {
  const size_t slash = name.find_last_of('/');
  const size_t base = slash == std::string::npos ? 0 : slash + 1;
  const size_t dot = name.find('.', base);
  if (dot == std::string::npos || dot == base) {
    return std::nullopt;
  }
  std::string ending = name.substr(dot + 1);
  std::ranges::transform(ending, ending.begin(), [](unsigned char c) { return std::tolower(c); });
  return std::pair{name.substr(0, dot), std::move(ending)};
}

std::vector<TarSample> group_samples(std::span<const io::TarMember> members,
                                     const std::string& where) {
  std::vector<TarSample> out;
  for (const io::TarMember& member : members) {
    const auto split = key_and_ending(member.name);
    if (!split || is_note(member.name)) {
      continue;
    }
    if (out.empty() || out.back().key != split->first) {
      out.push_back({split->first, {}});
    }
    check(out.back().find(split->second) == nullptr, "[tar] {} has {} twice in a sample", where,
          member.name);
    out.back().parts.emplace_back(split->second, member);
  }
  return out;
}

bool contains_tars(const fs::path& path) {
  std::error_code ignored;
  if (fs::is_regular_file(path, ignored)) {
    return is_tar(path.string());
  }
  const std::vector<std::string> names = file_names(path);
  return std::ranges::any_of(names, is_tar) &&
         std::ranges::none_of(names, [](const std::string& name) {
           return media::is_video_name(name) || media::is_image_name(name);
         });
}

std::unique_ptr<ClipSet> tar_clips(const fs::path& path, const ListOptions& options) {
  std::error_code ignored;
  if (fs::is_regular_file(path, ignored)) {
    return std::make_unique<TarClips>(path.parent_path(), std::vector{path}, options);
  }
  std::vector<fs::path> paths;
  for (const std::string& name : file_names(path)) {
    if (is_tar(name)) {
      paths.push_back(path / name);
    }
  }
  check(!paths.empty(), "[tar] {} holds no tars", path.string());
  std::ranges::sort(paths);
  return std::make_unique<TarClips>(path, paths, options);
}

}  // namespace kinema::data
