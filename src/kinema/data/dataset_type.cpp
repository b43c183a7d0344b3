#include "kinema/data/dataset_type.h"

#include <fmt/format.h>

#include <map>
#include <system_error>

#include "kinema/core/quantities.h"
#include "kinema/media/media_name.h"

namespace kinema::data {

namespace fs = std::filesystem;

std::string dataset_type_of(const std::vector<std::string>& names) {
  bool clips = false;
  bool tables = false;
  bool records = false;
  for (const std::string& name : names) {
    const std::string extension = fs::path(name).extension().string();
    clips = clips || media::is_video_name(name) || media::is_image_name(name) ||
            extension == ".tar" || extension == ".jsonl" || extension == ".csv";
    tables = tables || extension == ".parquet" || extension == ".arrow";
    records = records || extension.starts_with(".tfrec");
  }
  return records ? "tfrecord" : tables ? "hf" : clips ? "videos" : "";
}

std::vector<std::string> file_names(const fs::path& folder) {
  constexpr size_t kEnough = 4096;
  std::vector<std::string> out;
  std::error_code error;
  fs::recursive_directory_iterator at(folder, fs::directory_options::skip_permission_denied, error);
  for (const fs::recursive_directory_iterator end; !error && at != end && out.size() < kEnough;
       at.increment(error)) {
    if (at->path().filename().string().starts_with('.')) {
      at.disable_recursion_pending();
    } else if (std::error_code ignored; at->is_regular_file(ignored)) {
      out.push_back(at->path().lexically_relative(folder).string());
    }
  }
  return out;
}

std::string unread_pictures(const std::vector<std::string>& names) {
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
  return found.empty()
             ? ""
             : fmt::format("it holds {}, which {} not read: convert to PNG or JPEG", found,
                           found.starts_with("1 ") && counts.size() == 1 ? "is" : "are");
}

std::string other_type_hint(const fs::path& folder, const std::string& type) {
  const std::vector<std::string> names = file_names(folder);
  const std::string found = dataset_type_of(names);
  if (found.empty() || found == type) {
    return found.empty() ? unread_pictures(names) : "";
  }
  return fmt::format("it holds {}: dataset_type={} reads them",
                     found == "videos" ? "videos or images"
                     : found == "hf"   ? "Parquet or Arrow files"
                                       : "TFRecords",
                     found);
}

}  // namespace kinema::data
