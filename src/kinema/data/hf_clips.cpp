#include "kinema/data/hf_clips.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <array>
#include <system_error>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/data/clip_file.h"
#include "kinema/data/clip_list.h"
#include "kinema/data/hf_table.h"
#include "kinema/io/hash.h"
#include "kinema/io/mapped_file.h"

namespace kinema::data {
namespace {

namespace fs = std::filesystem;

bool is_table(const std::string& name) {
  const fs::path path(name);
  const std::string file = path.filename().string();
  // Internal files of the datasets library.
  const bool own = file.starts_with("cache-") || file.starts_with("indices-");
  return !own && (path.extension() == ".parquet" || path.extension() == ".arrow");
}

/// True if the split is a separate word at the start of a part of the path.
bool names_split(const std::string& name, const std::string& split) {
  for (const fs::path& part : fs::path(name)) {
    const std::string text = part.string();
    if (text.starts_with(split) &&
        (text.size() == split.size() ||
         std::string_view("-._").find(text[split.size()]) != std::string_view::npos)) {
      return true;
    }
  }
  return false;
}

class HfClips : public ClipSet {
 private:
  std::pair<size_t, int64_t> find(int64_t clip) const {
    const auto end = std::ranges::upper_bound(ends_, clip);
    check(clip >= 0 && end != ends_.end(), "[hf] {} has no row {}", root_.string(), clip);
    const auto table = static_cast<size_t>(end - ends_.begin());
    return {table, clip - (table == 0 ? 0 : ends_[table - 1])};
  }

  template <typename Call>
  auto with_bytes(int64_t clip, const Call& call) const {
    const auto [table, row] = find(clip);
    const std::string name = tables_[table].where(row);
    const MediaCell cell = tables_[table].media(row);
    if (!cell.bytes.empty()) {
      return call(cell.bytes, name);
    }
    // Paths are relative to the file's folder or to the data set's.
    std::error_code ignored;
    fs::path path = cell.path;
    if (!whole_paths_ || path.is_relative()) {
      path = inside(root_, tables_[table].path().parent_path(), cell.path, name);
      if (!fs::is_regular_file(path, ignored)) {
        path = inside(root_, root_, cell.path, name);
      }
    }
    check(fs::is_regular_file(path, ignored), "[hf] {}: there is no file {}", name, cell.path);
    const io::MappedFile file = io::MappedFile::open(path);
    return call(file.bytes(), fmt::format("{} ({})", name, path.string()));
  }

 public:
  HfClips(const fs::path& root, std::vector<HfTable> tables, bool whole_paths)
      : root_(root), tables_(std::move(tables)), whole_paths_(whole_paths) {
    int64_t sum = 0;
    for (const HfTable& table : tables_) {
      sum += table.rows();
      ends_.push_back(sum);
      stamps_.push_back(file_stamp(table.path()));
    }
    check(sum > 0, "[hf] the files of {} have no rows", root_.string());
  }

  int64_t size() const override { return ends_.back(); }

  std::string name(int64_t clip) const override {
    const auto [table, row] = find(clip);
    return tables_[table].where(row);
  }
  std::string where(int64_t clip) const override {
    const auto [table, row] = find(clip);
    return fmt::format("{} row {}", tables_[table].path().lexically_relative(root_).string(), row);
  }
  std::string caption(int64_t clip) const override {
    const auto [table, row] = find(clip);
    std::string caption = tables_[table].caption(row);
    check_caption(caption, tables_[table].where(row));
    return caption;
  }
  ClipSize measure(int64_t clip) const override { return with_bytes(clip, measure_clip); }
  HostArray read(int64_t clip, const ClipFormat& format, const ClipWindow& window) const override {
    return with_bytes(clip, [&](std::span<const std::byte> bytes, const std::string& name) {
      return read_clip(bytes, name, format, window);
    });
  }
  HostArray read_mask(int64_t clip, const ClipFormat& format, const ClipWindow& window,
                      bool alpha) const override {
    if (!alpha) {
      return {};
    }
    return with_bytes(clip, [&](std::span<const std::byte> bytes, const std::string& name) {
      return read_alpha_mask(bytes, name, format, window);
    });
  }
  std::string stamp(int64_t clip) const override {
    const auto [table, row] = find(clip);
    return fmt::format("row {} of {}", row, stamps_[table]);
  }
  std::string hash(int64_t clip) const override {
    return with_bytes(clip, [](std::span<const std::byte> bytes, const std::string&) {
      return io::hash_bytes(bytes);
    });
  }
  void verify(int64_t clip) const override { with_bytes(clip, verify_clip); }
  bool is_slow_to_measure() const override { return true; }

 private:
  fs::path root_;
  std::vector<HfTable> tables_;
  bool whole_paths_;
  std::vector<int64_t> ends_;  // rows up to the end of each table
  std::vector<std::string> stamps_;
};

}  // namespace

std::vector<std::string> choose_hf_files(std::vector<std::string> names, const HfOptions& options) {
  const auto fits = [&](const std::string& name) {
    const bool below =
        options.data_dir.empty() ||
        name.starts_with(fs::path(options.data_dir / fs::path()).lexically_normal().string());
    return is_table(name) && below &&
           (options.files.empty() || std::ranges::any_of(options.files, [&](const auto& pattern) {
              return fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
            }));
  };
  std::ranges::sort(names);
  const std::string there =
      names.empty() ? "it is empty"
                    : fmt::format("it has {} file(s), like {}", names.size(), names.front());
  std::erase_if(names, [&](const std::string& name) { return !fits(name); });
  check(!names.empty(), "[hf] {} holds no .parquet or .arrow files{}: {}{}",
        options.folder.string(),
        options.data_dir.empty() && options.files.empty()
            ? ""
            : " that hf_data_dir and hf_train_files select",
        there,
        options.data_dir.empty() && options.files.empty()
            ? "\n  dataset_type=videos or images reads a folder of media files; the hub has "
              "Parquet "
              "files of many data sets at @refs/convert/parquet"
            : "");
  std::vector<std::string> out;
  std::ranges::copy_if(names, std::back_inserter(out),
                       [&](const std::string& name) { return names_split(name, options.split); });
  if (!out.empty()) {
    return out;
  }
  constexpr std::array kSplits = {"train", "validation", "valid", "val", "dev", "test", "eval"};
  const bool named = std::ranges::any_of(names, [&](const std::string& name) {
    return std::ranges::any_of(kSplits,
                               [&](const char* split) { return names_split(name, split); });
  });
  check(!named && options.split == "train", "[hf] {} has no split `{}` among its {} files: {}{}",
        options.folder.string(), options.split, names.size(), names.front(),
        names.size() > 1 ? ", ..." : "");
  return names;
}

std::unique_ptr<ClipSet> hf_clips(const HfOptions& options) {
  std::error_code ignored;
  std::vector<HfTable> tables;
  if (fs::is_regular_file(options.folder, ignored)) {
    tables.emplace_back(options.folder, options.media_column, options.caption_column);
    return std::make_unique<HfClips>(options.folder.parent_path(), std::move(tables),
                                     options.whole_paths);
  }
  check(fs::is_directory(options.folder, ignored), "[hf] {} is neither a folder nor a file",
        options.folder.string());
  std::vector<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(options.folder)) {
    if (entry.is_regular_file(ignored)) {
      names.push_back(entry.path().lexically_relative(options.folder).string());
    }
  }
  for (const std::string& name : choose_hf_files(std::move(names), options)) {
    tables.emplace_back(options.folder / name, options.media_column, options.caption_column);
  }
  return std::make_unique<HfClips>(options.folder, std::move(tables), options.whole_paths);
}

}  // namespace kinema::data
