#include "kinema/inspection/folders.h"

#include <algorithm>

#include "kinema/core/error.h"
#include "kinema/core/quantities.h"
#include "kinema/data/dataset_type.h"
#include "kinema/data/record.h"
#include "kinema/io/file_format.h"
#include "kinema/media/check.h"
#include "kinema/networks/check_path.h"
#include "kinema/records/tfrecord.h"

namespace kinema::inspection {

namespace fs = std::filesystem;

bool is_checkpoint(const fs::path& path) { return fs::exists(path / "train_state.json"); }

bool is_pipeline_without_index(const fs::path& path) {
  return media::path_kind(path) == media::PathKind::Unknown &&
         !networks::parts_without_index(path).empty();
}

/// Why a folder with this file is no data set.
std::string unread_line(const fs::path& file) {
  const io::FileFormat format = io::file_format(file);
  return fmt::format("it holds files like {}, {}which kinema does not read{}{}",
                     file.filename().string(), format ? fmt::format("{}, ", format.name) : "",
                     format.remedy.empty() ? "" : "\n  ", format.remedy);
}

int64_t check_records(const fs::path& path) {
  const records::TfRecordFile file = records::TfRecordFile::open(path);
  for (int64_t i = 0; i < file.size(); ++i) {
    data::parse_record(file.at(i), file.where(i));
  }
  return file.size();
}

std::vector<fs::path> files_of(const fs::path& path) {
  std::vector<fs::path> out;
  for (const auto& entry : fs::directory_iterator(path)) {
    if (entry.is_regular_file()) {
      out.push_back(entry.path());
    }
  }
  std::ranges::sort(out);
  return out;
}

/// What a folder of a pipeline without weights is; else empty.
std::string pipeline_part(const std::vector<std::string>& names) {
  const auto has = [&](const char* name) { return std::ranges::find(names, name) != names.end(); };
  if (has("scheduler_config.json")) {
    return "scheduler";
  }
  return has("tokenizer_config.json") || has("tokenizer.json") || has("spiece.model") ||
                 (has("vocab.json") && has("merges.txt"))
             ? "tokenizer"
             : "";
}

std::string check_records_folder(const fs::path& path) {
  int64_t records = 0;
  const std::vector<fs::path> files = files_of(path);
  check(!files.empty(),
        "{} holds no file: no model folder, pipeline with a model_index.json, run or data set",
        path.string());
  std::vector<std::string> names;
  for (const fs::path& file : files) {
    names.push_back(file.filename().string());
  }
  const std::string part = pipeline_part(names);
  check(part.empty(),
        "[inspect] {} is the {} of a pipeline, which no command takes alone\n  give the folder of "
        "the pipeline",
        path.string(), part);
  const std::string unread = data::unread_files(names);
  names = records::shards_of(std::move(names));
  for (const std::string& name : names) {
    try {
      records += check_records(path / name);
    } catch (const Error&) {  // records may have any name, and be gzip files
      check(media::path_kind(path / name) == media::PathKind::TfRecord,
            "{} is no model folder, pipeline, run or data set: {}", path.string(),
            unread.empty() ? unread_line(path / name) : unread);
      throw;
    }
  }
  check(!names.empty(), "{} is no model folder, pipeline, run or data set: {}", path.string(),
        unread_line(files.front()));
  check(records > 0, "{} holds no records", path.string());
  return fmt::format("data set: {} in {}", counted(records, "record"),
                     counted(static_cast<int64_t>(names.size()), "file"));
}

}  // namespace kinema::inspection
