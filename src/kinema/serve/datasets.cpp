#include "kinema/serve/datasets.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "kinema/core/error.h"
#include "kinema/core/fingerprint.h"
#include "kinema/data/metadata.h"
#include "kinema/http/message.h"
#include "kinema/io/atomic_write.h"
#include "kinema/serve/paths.h"

namespace kinema::serve {
namespace {

namespace fs = std::filesystem;
using http::Refusal;

constexpr size_t kMostProblems = 200;
constexpr size_t kMostCaption = 65'536;

/// Says nothing of the path, and stays while the file does.
std::string id_of(const fs::path& folder, const fs::path& file) {
  return fmt::format("{:016x}", fingerprint(file.lexically_relative(folder).string()));
}

bool has_list(const fs::path& folder) {
  std::error_code error;
  for (auto entry = fs::recursive_directory_iterator(folder, error);
       !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (std::ranges::find(data::kMetadataFiles, name) != data::kMetadataFiles.end()) {
      return true;
    }
  }
  return false;
}

/// The file with a clip's caption; the name of a new one if there is none.
fs::path caption_file(const fs::path& clip) {
  fs::path out = fs::path(clip).replace_extension(".txt");
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(clip.parent_path(), error)) {
    std::string extension = entry.path().extension().string();
    std::ranges::transform(extension, extension.begin(),
                           [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    if (entry.path().stem() == clip.stem()) {
      if (extension == ".txt") {
        return entry.path();
      }
      out = extension == ".caption" ? entry.path() : out;
    }
  }
  return out;
}

}  // namespace

std::map<std::string, fs::path> named_folders(const std::vector<std::string>& folders) {
  std::map<std::string, fs::path> out;
  for (const std::string& text : folders) {
    const fs::path folder = fs::absolute(text).lexically_normal();
    const std::string stem =
        (folder.has_filename() ? folder : folder.parent_path()).filename().string();
    std::string name = stem;
    for (int n = 2; out.contains(name); ++n) {
      name = fmt::format("{}_{}", stem, n);
    }
    out.emplace(name, folder);
  }
  return out;
}

Datasets::Datasets(const std::vector<std::string>& folders, Looks& looks) : looks_(looks) {
  for (const auto& [name, folder] : named_folders(folders)) {
    sets_[name].folder = folder;
  }
}

void Datasets::read(Set& set) {
  set.read_at = std::chrono::steady_clock::now();
  set.clips.clear();
  set.problems.clear();
  set.by_id.clear();
  set.bytes = 0;
  try {
    data::Listing listing =
        data::list_folder(set.folder, {.missing = data::MissingClip::Keep, .split = ""});
    for (data::CaptionedClip& clip : listing.clips) {
      std::error_code error;
      if (!lies_in(clip.path, set.folder)) {
        clip.problem = clip.problem.empty() ? "it lies outside of the folder" : clip.problem;
      } else if (const auto bytes = fs::file_size(clip.path, error); !error) {
        set.bytes += static_cast<int64_t>(bytes);
      }
      if (set.by_id.emplace(id_of(set.folder, clip.path), set.clips.size()).second) {
        set.clips.push_back(std::move(clip));  // once, also if a folder repeats its clips
      }
    }
    for (const data::SkippedFile& skipped : listing.left_out) {
      set.problems.push_back(fmt::format("{}: {}", skipped.file, skipped.reason));
    }
    set.problems.insert(set.problems.end(), listing.notes.begin(), listing.notes.end());
  } catch (const Error& error) {
    set.problems.emplace_back(error.what());
  }
  set.problems.resize(std::min(set.problems.size(), kMostProblems));
  set.is_editable = !set.clips.empty() && !has_list(set.folder);
}

Datasets::Set& Datasets::find(const std::string& name, bool anew) {
  const auto found = sets_.find(name);
  if (found == sets_.end()) {
    throw Refusal(404, fmt::format("there is no data set `{}`", name), "", "dataset_not_found");
  }
  Set& out = found->second;
  if (anew || std::chrono::steady_clock::now() - out.read_at > std::chrono::seconds(10)) {
    read(out);
  }
  return out;
}

const data::CaptionedClip& Datasets::clip_of(const Set& set, const std::string& id) {
  const auto found = set.by_id.find(id);
  if (found == set.by_id.end()) {
    throw Refusal(404, "there is no such clip", "", "clip_not_found");
  }
  const data::CaptionedClip& out = set.clips[found->second];
  if (!lies_in(out.path, set.folder)) {
    throw Refusal(404, "the clip is not in the folder of its data set", "", "clip_not_found");
  }
  return out;
}

io::Json Datasets::to_json(const std::string& name, const Set& set, const data::CaptionedClip& clip,
                           const Look& look) {
  const std::string id = id_of(set.folder, clip.path);
  const std::string& problem = clip.problem.empty() ? look.problem : clip.problem;
  return io::Json::object({{"id", id},
                           {"file", clip.path.lexically_relative(set.folder).string()},
                           {"kind", look.is_video ? "video" : "image"},
                           {"thumb", fmt::format("/datasets/{}/thumbs/{}", name, id)},
                           {"url", fmt::format("/datasets/{}/clips/{}", name, id)},
                           {"width", look.width},
                           {"height", look.height},
                           {"frames", look.frames},
                           {"seconds", look.seconds},
                           {"caption", clip.caption},
                           {"problem", problem.empty() ? io::Json() : io::Json(problem)}});
}

io::Json Datasets::list() {
  const std::lock_guard lock(mutex_);
  io::Json out = io::Json::array();
  for (auto& [name, unread] : sets_) {
    const Set& set = find(name);
    const bool has_videos = std::ranges::any_of(set.clips, [](const data::CaptionedClip& clip) {
      return clip.path.extension() == ".mp4" || clip.path.extension() == ".webm" ||
             clip.path.extension() == ".mkv" || clip.path.extension() == ".mov";
    });
    out.append(io::Json::object({{"name", name},
                                 {"what", set.clips.empty() ? "no clips"
                                          : has_videos      ? "videos with captions"
                                                            : "pictures with captions"},
                                 {"clips", static_cast<int64_t>(set.clips.size())},
                                 {"bytes", set.bytes},
                                 {"editable", set.is_editable}}));
  }
  return out;
}

io::Json Datasets::clips(const std::string& name, int64_t offset, int64_t limit) {
  const std::lock_guard lock(mutex_);
  const Set& set = find(name);
  const auto size = static_cast<int64_t>(set.clips.size());
  const int64_t first = std::min(offset, size);
  const int64_t count = std::min(limit, size - first);
  std::vector<fs::path> files;
  for (int64_t i = first; i < first + count; ++i) {
    const data::CaptionedClip& clip = set.clips[static_cast<size_t>(i)];
    files.push_back(lies_in(clip.path, set.folder) ? clip.path : fs::path("/dev/null"));
  }
  const std::vector<Look> looks = looks_.at(files);
  io::Json clips = io::Json::array();
  for (int64_t i = 0; i < count; ++i) {
    clips.append(to_json(name, set, set.clips[static_cast<size_t>(first + i)],
                         looks[static_cast<size_t>(i)]));
  }
  io::Json problems = io::Json::array();
  for (const std::string& problem : set.problems) {
    problems.append(problem);
  }
  return io::Json::object(
      {{"total", size}, {"problems", std::move(problems)}, {"clips", std::move(clips)}});
}

io::Json Datasets::set_caption(const std::string& name, const std::string& id,
                               const std::string& caption, const std::string& was) {
  if (caption.size() > kMostCaption || caption.find('\0') != std::string::npos) {
    throw Refusal(422, fmt::format("a caption has at most {} bytes, and no zero", kMostCaption),
                  "caption");
  }
  try {
    data::check_caption(caption, "the caption");
  } catch (const Error& error) {
    throw Refusal(422, error.what(), "caption");
  }
  const std::lock_guard lock(mutex_);
  Set& set = find(name, /*anew=*/true);
  const data::CaptionedClip clip = clip_of(set, id);
  if (!set.is_editable) {
    throw Refusal(409, "the captions of this data set are in one list, which is not changed here");
  }
  if (clip.caption != was) {
    throw Refusal(409, "somebody else has changed the caption meanwhile", "was");
  }
  const fs::path file = caption_file(clip.path);
  if (!lies_in(file.parent_path(), set.folder) &&
      fs::canonical(file.parent_path()) != fs::canonical(set.folder)) {
    throw Refusal(409, "the caption's file is not in the folder of its data set");
  }
  io::write_file(file, caption);
  read(set);
  const data::CaptionedClip& now = clip_of(set, id);
  const std::vector<fs::path> files{now.path};
  return to_json(name, set, now, looks_.at(files).front());
}

fs::path Datasets::file(const std::string& name, const std::string& id) {
  const std::lock_guard lock(mutex_);
  return clip_of(find(name), id).path;
}

fs::path Datasets::thumb(const std::string& name, const std::string& id) {
  const std::lock_guard lock(mutex_);
  const std::vector<fs::path> files{clip_of(find(name), id).path};
  const Look look = looks_.at(files).front();
  if (look.thumb.empty()) {
    throw Refusal(404, "there is no picture of this clip");
  }
  return look.thumb;
}

}  // namespace kinema::serve
