#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <list>
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

/// Devices, compiled steps and loaded pipelines of requests, which the next request uses again as
/// far as its settings and its model's files are the same.
class KeptPipeline {
 public:
  /// `most`: models that stay loaded, as long as there is memory for the next one's weights.
  KeptPipeline(const resolve::Settings& settings, const Job& job, int64_t most = 1);

  /// False if the devices would have to be opened anew: then this object is of no use.
  bool fits(const resolve::Settings& settings) const;
  /// Starts a request, of `job`: frees pipelines of files that have changed, and those used longest
  /// ago, until the model `sampled` may be loaded.
  void begin(const resolve::Settings& settings, const SampledModel& sampled, const Job& job);
  /// No request is in progress: log lines have no reader.
  void end() { *current_ = nullptr; }

  const VideoDevices& opened() const { return opened_; }
  const runtime::Devices& devices() const { return devices_; }
  /// The settings with choices that depend on the devices: attention kernels and their tiles.
  const resolve::Settings& tuned() const { return models_.front().tuned; }
  /// The loaded pipeline, or a new one. `releases_encoders` and `agree`: of PipelineOptions.
  sample::Pipeline& pipeline(const SampledModel& sampled, bool releases_encoders,
                             std::function<std::string(const std::string&)> agree);
  /// Null before the first call of `pipeline`.
  const sample::Pipeline* loaded() const {
    return models_.empty() || !models_.front().pipeline ? nullptr : &*models_.front().pipeline;
  }
  /// Frees all models but that of the request; false if there are none.
  bool release_others();

 private:
  struct File {
    std::string path;
    uintmax_t bytes = 0;
    std::filesystem::file_time_type time;
    bool operator==(const File&) const = default;
  };
  static std::vector<File> files_of(const SampledModel& sampled);
  struct Model {
    resolve::Settings tuned;
    std::vector<File> files;
    std::shared_ptr<sample::StepPrograms> programs;
    std::optional<sample::Pipeline> pipeline;
  };
  std::shared_ptr<sample::StepPrograms> programs_for(const resolve::Settings& tuned) const;
  void make_room(const std::vector<File>& files);

  /// The job of parts that outlive a request: it reports to the request in progress.
  std::shared_ptr<const Job*> current_ = std::make_shared<const Job*>(nullptr);
  Job relay_;
  resolve::Settings settings_;
  VideoDevices opened_;
  runtime::Devices devices_;
  int64_t most_;
  std::list<Model> models_;  // the last used one first
};

}  // namespace kinema::jobs
