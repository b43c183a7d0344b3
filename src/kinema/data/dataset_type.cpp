#include "kinema/data/dataset_type.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <system_error>

#include "kinema/core/quantities.h"
#include "kinema/data/dataset_file.h"
#include "kinema/media/media_name.h"

namespace kinema::data {

namespace fs = std::filesystem;

std::string detect_dataset_type(const std::vector<std::string>& names) {
  bool clips = false;
  bool tables = false;
  bool records = false;
  bool has_media = false;
  bool is_listed = false;  // by a list of clips in the folder itself
  for (const std::string& name : names) {
    const std::string extension = fs::path(name).extension().string();
    has_media = has_media || media::is_video_name(name) || media::is_image_name(name);
    is_listed = is_listed || name == "metadata.jsonl" || name == "metadata.csv";
    clips = clips || has_media || extension == ".tar" || extension == ".jsonl" ||
            extension == ".csv" || extension == ".tsv";
    // The captions of pictures in the same folder, not a table with pictures.
    const bool is_list = fs::path(name).filename() == "metadata.parquet";
    tables = tables || (extension == ".parquet" && !is_list) || extension == ".arrow";
    records = records || extension.starts_with(".tfrec");
  }
  // Records in a folder below, made of these clips, do not change what the folder is.
  return has_media && is_listed ? "videos"
         : records              ? "tfrecord"
         : tables               ? "hf"
         : clips                ? "videos"
                                : "";
}

std::vector<std::string> file_names(const fs::path& folder, size_t most) {
  std::vector<std::string> out;
  std::error_code error;
  fs::recursive_directory_iterator at(folder, fs::directory_options::skip_permission_denied, error);
  for (const fs::recursive_directory_iterator end; !error && at != end && out.size() < most;
       at.increment(error)) {
    if (at->path().filename().string().starts_with('.')) {
      at.disable_recursion_pending();
    } else if (std::error_code ignored; at->is_regular_file(ignored)) {
      out.push_back(at->path().lexically_relative(folder).string());
    }
  }
  return out;
}

namespace {

bool is_archive_name(const std::string& name) {
  constexpr std::array<std::string_view, 7> kEndings = {".zip", ".7z", ".rar", ".tgz",
                                                        ".bz2", ".xz", ".zst"};
  const std::string extension = fs::path(name).extension().string();
  return std::ranges::find(kEndings, extension) != kEndings.end();
}

}  // namespace

std::string unread_files(const std::vector<std::string>& names) {
  std::map<std::string, int64_t> counts;
  for (const std::string& name : names) {
    if (const std::string format = media::unread_image_name(name); !format.empty()) {
      ++counts[format];
    }
  }
  std::string found;
  for (const auto& [format, count] : counts) {
    found += (found.empty() ? "" : " and ") + counted(count, format + " picture");
  }
  if (!found.empty()) {
    return fmt::format("it holds {}, which {} not read: convert to PNG or JPEG", found,
                       found.starts_with("1 ") && counts.size() == 1 ? "is" : "are");
  }
  const auto packed = std::ranges::find_if(names, is_archive_name);
  return packed == names.end()
             ? ""
             : fmt::format("it holds {}, an archive, which is not read: unpack it", *packed);
}

std::string other_type_hint(const fs::path& folder, const std::string& type) {
  if (is_dataset_file(folder)) {
    return type == "videos" ? ""
                            : "dataset_type=images or videos reads the data sets of a TOML file";
  }
  const std::vector<std::string> names = file_names(folder);
  const std::string found = detect_dataset_type(names);
  if (found.empty() || found == type) {
    return found.empty() ? unread_files(names) : "";
  }
  return fmt::format("it holds {}: dataset_type={} reads them",
                     found == "videos" ? "videos or images"
                     : found == "hf"   ? "Parquet or Arrow files"
                                       : "TFRecords",
                     found);
}

}  // namespace kinema::data
