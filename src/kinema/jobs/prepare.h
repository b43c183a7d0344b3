#pragma once

#include <functional>
#include <string>
#include <vector>

#include "kinema/data/survey.h"
#include "kinema/job/job.h"
#include "kinema/preparation/prepare.h"
#include "kinema/resolve/settings.h"

/// Writes clips and captions as TFRecords: `kinema prepare`.
namespace kinema::jobs {

/// A folder of shards that was written.
struct PreparedFolder {
  std::string kind;  // `training` or `evaluation`
  std::string path;  // as in the configuration: a local path, or gs://...
  bool has_buckets = false;
  std::string noun = "clip";  // `picture` for clips of one frame
  preparation::Prepared made;
};

struct PrepareObserver : Observer {
  std::function<void(const preparation::Shard&)> on_shard;
  std::function<void(const preparation::SkippedClip&)> on_skip;
  std::function<void(const PreparedFolder&)> on_folder;
};

struct PrepareResult {
  std::vector<PreparedFolder> folders;
  std::vector<data::CauseCount> left_out;  // `damaged`: found while decoding
  bool stopped = false;  // a stop was requested; the same call continues with the rest
};

/// Writes the records of tfrecords_dir and, if given, of eval_tfrecords_dir.
PrepareResult prepare(const resolve::Settings& config, const PrepareObserver& observer,
                      JobOptions options = {});

}  // namespace kinema::jobs
