#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kinema/io/tfrecord_ranges.h"
#include "kinema/remote/store.h"

namespace kinema::remote {

/// Of the files of a listing, those that a folder's TFRecords are in, in order; nothing of other
/// folders below it.
std::vector<StoredFile> record_shards(const std::vector<StoredFile>& files);

/// The records of a shard, whose bytes are `object`'s, as its index file has them; nothing where
/// there is none, it is damaged, or of another size or time of the shard. Never throws.
std::optional<io::RangedTfRecords> records_by_index(
    const std::filesystem::path& index, const StoredFile& shard,
    const std::shared_ptr<const io::RangedFile>& object);

/// The shards of a folder in a store, to read records from there by ranges. An object is opened
/// when its first record is read.
///
/// Where records lie is kept in `index`/SCHEME/BUCKET/NAME; what it does not have of a shard's
/// present size and time is read, so many shards at a time, and told as `progress` (shards done,
/// of all). Throws an Error as Store and io::read_record_lengths do.
std::vector<io::RangedTfRecords> open_records(
    const Store& store, const std::vector<StoredFile>& shards, const std::filesystem::path& index,
    int connections = 16, const std::function<void(int64_t done, int64_t total)>& progress = {});

}  // namespace kinema::remote
