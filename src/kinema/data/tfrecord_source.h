#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

#include "kinema/data/source.h"
#include "kinema/data/split.h"
#include "kinema/records/tfrecord_ranges.h"

namespace kinema::data {

struct TfRecordOptions {
  std::filesystem::path folder;  // every file in it is a shard, sorted by name
  uint64_t seed = 0;
  /// False: records in file order, epoch after epoch (evaluation).
  bool shuffle = true;
  /// Only the first `max_samples` records; negative: all.
  int64_t max_samples = -1;
  /// Records may have several shapes (which are read from all records when the folder is opened),
  /// and every `batch` samples have the same shape.
  bool by_shape = false;
  int64_t batch = 1;
  /// The records to read, by the name of their shard and their index in it.
  Split split = {};
};

/// Records (record.h) of all shards of a folder. Opening checks every shard's framing; a record's
/// CRC and contents are checked when it is read, with an Error that contains file and record.
std::unique_ptr<Source> tfrecord_source(const TfRecordOptions& options);

/// The same for remote shards (the folder is ignored); each sample is read on demand. `by_shape`
/// reads all of them first.
std::unique_ptr<Source> tfrecord_source(std::vector<records::RangedTfRecords> shards,
                                        const TfRecordOptions& options);

}  // namespace kinema::data
