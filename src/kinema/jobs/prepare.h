#pragma once

#include <functional>
#include <string>
#include <vector>

#include "kinema/data/survey.h"
#include "kinema/job/job.h"
#include "kinema/preparation/prepare.h"
#include "kinema/resolve/settings.h"

/// Clips and captions into TFRecords from a configuration, as `kinema prepare` makes them.
namespace kinema::jobs {

/// A folder of shards that was written.
struct PreparedFolder {
  std::string kind;  // `training` or `evaluation`
  std::string path;  // as it was named: of this machine, or gs://...
  bool has_buckets = false;
  std::string noun = "clip";  // what one is called: of one frame, `picture`
  preparation::Prepared made;
};

struct PrepareObserver : Observer {
  std::function<void(const preparation::Shard&)> on_shard;
  std::function<void(const preparation::SkippedClip&)> on_skip;
  std::function<void(const PreparedFolder&)> on_folder;
};

struct PrepareResult {
  std::vector<PreparedFolder> folders;
  std::vector<data::CauseCount> left_out;  // `damaged`: seen when a clip was decoded
  bool stopped = false;  // asked to; what is prepared stays, and the same call goes on
};

/// Prepares the records of tfrecords_dir, and of eval_tfrecords_dir where that is named.
PrepareResult prepare(const resolve::Settings& config, const PrepareObserver& observer,
                      JobOptions options = {});

}  // namespace kinema::jobs
