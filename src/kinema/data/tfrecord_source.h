#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

#include "kinema/data/source.h"
#include "kinema/data/split.h"
#include "kinema/io/tfrecord_ranges.h"

namespace kinema::data {

struct TfRecordOptions {
  std::filesystem::path folder;  // every file in it is a shard, in order of name
  uint64_t seed = 0;
  /// False: records in file order, epoch after epoch (evaluation).
  bool shuffle = true;
  /// Only the first so many records; negative: all.
  int64_t max_samples = -1;
  /// Records may have several shapes (those of all are read when the folder is opened), and every
  /// `batch` samples are of one.
  bool by_shape = false;
  int64_t batch = 1;
  /// Which records are read, by the name of their shard and their number in it.
  Split split = {};
};

/// Records (record.h) from all shards of a folder. Opening checks every shard's
/// framing; a record's CRC and contents are checked when it is read, with an Error that names file
/// and record.
std::unique_ptr<Source> tfrecord_source(const TfRecordOptions& options);

/// The same of shards that lie elsewhere, whatever the folder; each sample is read when it is asked
/// for. `by_shape` reads all of them first.
std::unique_ptr<Source> tfrecord_source(std::vector<io::RangedTfRecords> shards,
                                        const TfRecordOptions& options);

}  // namespace kinema::data
