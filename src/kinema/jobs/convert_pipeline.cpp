#include "kinema/jobs/convert_pipeline.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <vector>

#include "kinema/io/atomic_write.h"
#include "kinema/io/folder.h"
#include "kinema/model_files/checkpoint.h"
#include "kinema/model_files/family.h"
#include "kinema/model_files/single_file.h"
#include "kinema/model_source/model_schedule.h"
#include "kinema/networks/open.h"
#include "kinema/sample/pipeline_folder.h"

namespace kinema::jobs {
namespace {

namespace fs = std::filesystem;
using io::Json;

/// Copies the tokenizers that are next to the file; returns the parts of model_index.json that the
/// folder lacks.
std::vector<std::string> complete(const fs::path& source, const fs::path& target,
                                  const Json& index) {
  std::vector<std::string> missing;
  for (const auto& [name, value] : index.members()) {
    if (!value.is_array() || fs::is_directory(target / name)) {
      continue;
    }
    const fs::path beside = source.parent_path() / name;
    if (name.starts_with("tokenizer") && fs::is_directory(beside)) {
      fs::copy(beside, target / name, fs::copy_options::recursive);
    } else {
      missing.push_back(name + "/");
    }
  }
  return missing;
}

}  // namespace

bool holds_pipeline(const fs::path& source) {
  return !model_files::parts_in(source).empty() &&
         model_files::is_transformer(model_files::Checkpoint::open(source));
}

void convert_pipeline(const fs::path& source, const fs::path& target,
                      const networks::ConvertOptions& options, const Job& job) {
  const model_files::Family& family =
      *model_files::find_family(model_files::Checkpoint::open(source));
  const networks::Network network = networks::open(source);
  const Json scheduler =
      model_source::read_model_schedule(
          {.path = model_source::adjacent_scheduler_config(source), .class_name = ""}, source,
          network)
          .file;
  networks::convert_parts(source, target, options);
  std::vector<std::string> missing;
  try {
    io::make_folder(target / "scheduler");
    io::write_file(target / sample::kSchedulerConfig, scheduler.dump() + "\n");
    const Json index = model_files::model_index(family, scheduler.at("_class_name").as_string(),
                                                network.sizes().condition_channels() > 0);
    io::write_file(target / "model_index.json", index.dump() + "\n");
    missing = complete(source, target, index);
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(target, ignored);
    throw;
  }
  if (!missing.empty()) {
    job.notice(
        fmt::format("{} lacks {}, which {} does not contain: copy {} from another folder of a {}",
                    target.string(), fmt::join(missing, ", "), source.string(),
                    missing.size() == 1 ? "it" : "them", family.pipelines.front().name));
  }
}

}  // namespace kinema::jobs
