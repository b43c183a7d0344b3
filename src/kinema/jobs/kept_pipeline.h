#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kinema/job/job.h"
#include "kinema/jobs/sampled_model.h"
#include "kinema/jobs/shared_generation.h"
#include "kinema/resolve/settings.h"
#include "kinema/runtime/array.h"
#include "kinema/sample/pipeline.h"

namespace kinema::jobs {

/// Devices, compiled steps and a loaded pipeline of one request, which the next request uses again
/// as far as its settings and the model's files are the same.
class KeptPipeline {
 public:
  KeptPipeline(const resolve::Settings& settings, const Job& job);

  /// False if the devices would have to be opened anew: then this object is of no use.
  bool fits(const resolve::Settings& settings) const;
  /// Starts a request, of `job`: frees the pipeline if it is of another model than `sampled`, of
  /// other settings, or of files that have changed.
  void begin(const resolve::Settings& settings, const SampledModel& sampled, const Job& job);
  /// No request is in progress: log lines have no reader.
  void end() { *current_ = nullptr; }

  const VideoDevices& opened() const { return opened_; }
  const runtime::Devices& devices() const { return devices_; }
  /// The settings with choices that depend on the devices: attention kernels and their tiles.
  const resolve::Settings& tuned() const { return tuned_; }
  /// The loaded pipeline, or a new one. `releases_encoders` and `agree`: of PipelineOptions.
  sample::Pipeline& pipeline(const SampledModel& sampled, bool releases_encoders,
                             std::function<std::string(const std::string&)> agree);
  /// Null before the first call of `pipeline`.
  const sample::Pipeline* loaded() const { return pipeline_ ? &*pipeline_ : nullptr; }

 private:
  struct File {
    std::string path;
    uintmax_t bytes = 0;
    std::filesystem::file_time_type time;
    bool operator==(const File&) const = default;
  };
  static std::vector<File> files_of(const SampledModel& sampled);

  /// The job of parts that outlive a request: it reports to the request in progress.
  std::shared_ptr<const Job*> current_ = std::make_shared<const Job*>(nullptr);
  Job relay_;
  resolve::Settings settings_;
  resolve::Settings tuned_;
  VideoDevices opened_;
  runtime::Devices devices_;
  std::shared_ptr<sample::StepPrograms> programs_;
  std::vector<File> files_;
  std::optional<sample::Pipeline> pipeline_;
};

}  // namespace kinema::jobs
