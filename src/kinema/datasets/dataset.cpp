#include "kinema/datasets/dataset.h"

#include <utility>
#include <vector>

#include "kinema/data/picture_sizes.h"
#include "kinema/remote/store.h"
#include "kinema/remote/store_records.h"
#include "kinema/stores/local_copies.h"

namespace kinema::datasets {
namespace {

/// The shards of a folder in a store, which are read directly from the store.
std::vector<records::RangedTfRecords> stored_records(const std::string& path, const Job& job) {
  const remote::Store store(*remote::read_store_path(path));
  constexpr int kThreads = 16;
  return remote::open_records(store, remote::record_shards(store.list()),
                              stores::stores_folder() / "index", kThreads,
                              job.progress("shards of " + path));
}

std::unique_ptr<data::Source> make_record_source(const RecordSettings& settings,
                                                 const networks::Sizes& model, int64_t batch,
                                                 const Job& job) {
  data::TfRecordOptions options = settings.records;
  options.batch = batch;
  const std::string folder = options.folder.string();
  std::unique_ptr<data::Source> records =
      remote::is_store_path(folder) ? data::tfrecord_source(stored_records(folder, job), options)
                                    : data::tfrecord_source(options);
  return model.size_ids > 0 ? data::with_sizes(std::move(records), settings.cell_side)
                            : std::move(records);
}

}  // namespace

const ClipSettings* clips_in(const Dataset& dataset) { return std::get_if<ClipSettings>(&dataset); }

std::unique_ptr<data::Source> make_source(const Dataset& dataset, const networks::Sizes& model,
                                          int64_t batch, const ClipEncoders& makes,
                                          const ClipReport& report, const Job& job) {
  if (const auto* synthetic = std::get_if<data::SyntheticOptions>(&dataset)) {
    return data::synthetic_source(*synthetic);
  }
  if (const ClipSettings* clips = clips_in(dataset)) {
    return make_clip_source(*clips, model, batch, makes, report, job);
  }
  return make_record_source(std::get<RecordSettings>(dataset), model, batch, job);
}

}  // namespace kinema::datasets
