#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kinema/records/tfrecord_ranges.h"
#include "kinema/remote/store.h"

namespace kinema::remote {

/// The TFRecord files directly in a listed folder, in order.
std::vector<StoredFile> record_shards(const std::vector<StoredFile>& files);

/// The records of a shard with the bytes `object`, from its index file; nothing if that does not
/// exist, is corrupt, or is of another size or time of the shard. Never throws.
std::optional<records::RangedTfRecords> records_by_index(
    const std::filesystem::path& index, const StoredFile& shard,
    const std::shared_ptr<const io::RangedFile>& object);

/// The shards of a folder in a store, to read records by ranges. An object is opened when its first
/// record is read.
///
/// The records' offsets are cached in `index`/SCHEME/BUCKET/NAME. For shards whose size and time
/// are not in the cache, they are read, several shards at a time, with `progress` (shards done,
/// total). Throws an Error as Store and io::read_record_lengths do.
std::vector<records::RangedTfRecords> open_records(
    const Store& store, const std::vector<StoredFile>& shards, const std::filesystem::path& index,
    int connections = 16, const std::function<void(int64_t done, int64_t total)>& progress = {});

}  // namespace kinema::remote
