#include "kinema/runs/data_sets.h"

#include <filesystem>
#include <memory>

#include "kinema/data/dataset_type.h"
#include "kinema/remote/store_records.h"
#include "kinema/runs/stores.h"

namespace kinema::runs {

namespace fs = std::filesystem;

namespace {

/// The copy of a data set, or the path itself where records are read from their store.
/// `type`: its dataset_type; nothing: the files say so.
std::string copy_or_store(const std::string& path, std::optional<config::DatasetType> type,
                          const Job& job) {
  const auto stored = remote::read_store_path(path);
  const auto is_clips = [](std::optional<config::DatasetType> each) {
    return each == config::DatasetType::VIDEOS || each == config::DatasetType::HF;
  };
  if (!stored || is_clips(type)) {
    return local_copy(path, job);
  }
  const std::vector<remote::StoredFile> files = remote::Store(*stored).list();
  std::vector<std::string> names;
  for (const remote::StoredFile& file : files) {
    names.push_back(file.name);
  }
  if (!type && is_clips(config::choice_of<config::DatasetType>(data::dataset_type_of(names)))) {
    return local_copy(path, job);
  }
  int64_t bytes = 0;
  for (const remote::StoredFile& shard : remote::record_shards(files)) {
    bytes += shard.size;
  }
  return bytes > remote::records_to_copy() ? path : local_copy(path, job);
}

}  // namespace

config::Loaded with_local_data(config::Loaded loaded, const Job& job) {
  config::DataConfig& data = loaded.config.data;
  config::RunConfig& run = loaded.config.run;
  if (data.dataset_type != config::DatasetType::SYNTHETIC) {
    data.train_data_dir = copy_or_store(data.train_data_dir, data.dataset_type, job);
  }
  if (run.eval_every > 0) {
    run.eval_data_dir = copy_or_store(run.eval_data_dir, std::nullopt, job);
  }
  return loaded;
}

std::vector<io::RangedTfRecords> stored_records(const std::string& path, const Job& job) {
  const remote::Store store(*remote::read_store_path(path));
  return remote::open_records(store, remote::record_shards(store.list()), stores_folder() / "index",
                              16, job.progress("shards of " + path));
}

}  // namespace kinema::runs
