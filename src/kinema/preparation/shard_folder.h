#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "kinema/data/clip_set.h"
#include "kinema/io/descriptor.h"

namespace kinema::preparation {

/// What decides the bytes of the shards: name of a setting to its value as text.
using Settings = std::map<std::string, std::string>;

/// A clip that is in no shard.
struct SkippedClip {
  int64_t clip = 0;  // its place in the order that records are made in
  std::string file;
  std::string reason;
};

/// A complete shard.
struct Shard {
  std::string name;
  int64_t records = 0;
  int64_t bytes = 0;
  int64_t end_clip = 0;  // the place after the last one that it answers for
};

/// Where what is known of the contents of clips and models (ContentIndex) lies, of a folder of
/// shards: beside it.
std::filesystem::path contents_path(const std::filesystem::path& folder);

/// A folder of shards and what is known of it, so that a run goes on where another one ended.
///
/// The folder itself holds nothing but shards, since MaxDiffusion reads every file of it. What is
/// known stands beside it: FOLDER.prepare.json, FOLDER.contents.json, and FOLDER.skipped.jsonl with
/// a line `{"file": ..., "reason": ...}` for each clip left out.
class ShardFolder {
 public:
  /// Makes the folder or opens it, holds it for this process, and removes what a killed run left
  /// half written. Shards that are gone or have another size are forgotten, with those after them.
  /// Throws an Error when another process holds it, when shards of other settings are there (naming
  /// one setting), and when it holds files that are not known.
  ShardFolder(const std::filesystem::path& folder, const Settings& settings);
  ShardFolder(const ShardFolder&) = delete;
  ShardFolder& operator=(const ShardFolder&) = delete;

  const std::filesystem::path& path() const { return folder_; }
  std::filesystem::path state_path() const;
  std::filesystem::path skipped_path() const;

  const std::vector<Shard>& shards() const { return shards_; }
  /// Clips that the shards answer for and do not hold.
  const std::vector<SkippedClip>& skipped() const { return skipped_; }
  /// Records in a full shard; 0 before the first shard.
  int64_t records_per_shard() const { return records_per_shard_; }

  /// Notes a shard that is complete under its name, and the clips skipped since the one before.
  void add(const Shard& shard, const std::vector<SkippedClip>& skipped, int64_t records_per_shard);
  /// Notes the clips skipped after the last shard, and files that are no clips.
  void write_skipped(const std::vector<SkippedClip>& after_last,
                     const std::vector<data::LeftOut>& left_out) const;

 private:
  void hold();
  void read(const Settings& settings);
  void write_state() const;

  std::filesystem::path folder_;
  io::Descriptor held_;  // the folder
  Settings settings_;
  std::vector<Shard> shards_;
  std::vector<SkippedClip> skipped_;
  int64_t records_per_shard_ = 0;
};

}  // namespace kinema::preparation
