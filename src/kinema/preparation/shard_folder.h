#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "kinema/data/clip_set.h"
#include "kinema/io/descriptor.h"

namespace kinema::preparation {

/// The settings that determine the bytes of the shards: name to value as text.
using Settings = std::map<std::string, std::string>;

/// A clip that is in no shard.
struct SkippedClip {
  int64_t clip = 0;  // its place in the order of the records
  std::string file;
  std::string reason;
};

/// A complete shard.
struct Shard {
  std::string name;
  int64_t records = 0;
  int64_t bytes = 0;
  int64_t end_clip = 0;  // the place after its last one
};

/// The ContentIndex of clips and models for a folder of shards: a file next to it.
std::filesystem::path contents_path(const std::filesystem::path& folder);

/// A folder of shards with its metadata, from which an interrupted run continues.
///
/// The folder contains only shards, because MaxDiffusion reads every file in it. Metadata is next
/// to it: FOLDER.prepare.json, FOLDER.contents.json, and FOLDER.skipped.jsonl with a line `{"file":
/// ..., "reason": ...}` for each skipped clip.
class ShardFolder {
 public:
  /// Creates or opens the folder, locks it for this process, and removes a killed run's incomplete
  /// files. Shards that are missing or have another size are dropped, with all later ones. Throws
  /// an Error if another process has locked it, if it has shards of other settings (with one of
  /// them), and if it has unknown files.
  ShardFolder(const std::filesystem::path& folder, const Settings& settings);
  ShardFolder(const ShardFolder&) = delete;
  ShardFolder& operator=(const ShardFolder&) = delete;

  const std::filesystem::path& path() const { return folder_; }
  std::filesystem::path state_path() const;
  std::filesystem::path skipped_path() const;

  const std::vector<Shard>& shards() const { return shards_; }
  /// Clips in the range of the shards that are not in them.
  const std::vector<SkippedClip>& skipped() const { return skipped_; }
  /// Records in a full shard; 0 before the first shard.
  int64_t records_per_shard() const { return records_per_shard_; }

  /// Records a complete shard, and the clips skipped since the previous one.
  void add(const Shard& shard, const std::vector<SkippedClip>& skipped, int64_t records_per_shard);
  /// Records the clips skipped after the last shard, and files that are not clips.
  void write_skipped(const std::vector<SkippedClip>& after_last,
                     const std::vector<data::SkippedFile>& left_out) const;

 private:
  void hold();
  void read(const Settings& settings);
  void write_state() const;

  std::filesystem::path folder_;
  io::Descriptor held_;  // the locked folder
  Settings settings_;
  std::vector<Shard> shards_;
  std::vector<SkippedClip> skipped_;
  int64_t records_per_shard_ = 0;
};

}  // namespace kinema::preparation
