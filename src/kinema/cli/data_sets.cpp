#include "kinema/cli/data_sets.h"

#include <filesystem>
#include <memory>

#include "kinema/cli/progress.h"
#include "kinema/cli/stores.h"
#include "kinema/data/dataset_type.h"
#include "kinema/remote/store_records.h"

namespace kinema::cli {

namespace fs = std::filesystem;

namespace {

/// The copy of a data set, or the path itself where records are read from their store.
/// `type`: its dataset_type; empty: the files say so.
std::string copy_or_store(const std::string& path, const std::string& type) {
  const auto stored = remote::read_store_path(path);
  if (!stored || type == "videos" || type == "hf") {
    return local_copy(path);
  }
  const std::vector<remote::StoredFile> files = remote::Store(*stored).list();
  std::vector<std::string> names;
  for (const remote::StoredFile& file : files) {
    names.push_back(file.name);
  }
  if (const std::string found = data::dataset_type_of(names);
      type.empty() && (found == "videos" || found == "hf")) {
    return local_copy(path);
  }
  int64_t bytes = 0;
  for (const remote::StoredFile& shard : remote::record_shards(files)) {
    bytes += shard.size;
  }
  return bytes > remote::records_to_copy() ? path : local_copy(path);
}

}  // namespace

void fetch_data(config::Config& config) {
  config::DataConfig& data = config.data;
  if (data.dataset_type != "synthetic") {
    data.train_data_dir = copy_or_store(data.train_data_dir, data.dataset_type);
  }
  if (config.run.eval_every > 0) {
    config.run.eval_data_dir = copy_or_store(config.run.eval_data_dir, "");
  }
}

std::vector<io::RangedTfRecords> stored_records(const std::string& path) {
  const remote::Store store(*remote::read_store_path(path));
  std::unique_ptr<Progress> bar;
  return remote::open_records(store, remote::record_shards(store.list()), stores_folder() / "index",
                              16, [&](int64_t done, int64_t total) {
                                if (!bar) {
                                  bar = std::make_unique<Progress>("shards of " + path, total);
                                }
                                bar->update(done);
                              });
}

}  // namespace kinema::cli
