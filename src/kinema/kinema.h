#pragma once

#include <fmt/format.h>

#include <concepts>
#include <string>
#include <utility>
#include <vector>

#include "kinema/config/config.h"
#include "kinema/core/error.h"
#include "kinema/jobs/convert.h"
#include "kinema/jobs/evaluate.h"
#include "kinema/jobs/generate.h"
#include "kinema/jobs/plan.h"
#include "kinema/jobs/prepare.h"
#include "kinema/jobs/process_setup.h"
#include "kinema/jobs/train.h"
#include "kinema/jobs/verify.h"
#include "kinema/runtime/client.h"

/// The jobs of the program `kinema` as functions: each takes a configuration and an observer,
/// returns a result or throws kinema::Error, prints nothing, and changes no signal handler,
/// environment variable, allocator or log handler of the process (ProcessSetup does, on request).
/// XLA's plugins log on their own, up to the level in TF_CPP_MIN_LOG_LEVEL.
///
///     kinema::Config config = kinema::load_config("my_run.yml", {"run_name=first"});
///     const kinema::TrainResult trained = kinema::train(config);
namespace kinema {

/// The keys of a run, each with its origin; docs/reference/config.md lists them.
class Config {
 public:
  /// The defaults.
  Config() = default;
  explicit Config(config::Loaded loaded) : loaded_(std::move(loaded)) {}

  /// Sets a key, like `key=value` on the command line. Throws an Error for an unknown key, with the
  /// nearest known one, and for an invalid value.
  Config& set(const std::string& key, const std::string& value) {
    config::set(loaded_, key, value);
    return *this;
  }
  Config& set(const std::string& key, const char* value) { return set(key, std::string(value)); }
  template <typename T>
  requires std::integral<T> || std::floating_point<T> Config& set(const std::string& key, T value) {
    return set(key, fmt::format("{}", value));
  }
  /// Every key, as a file that load_config reads.
  std::string to_yaml() const { return config::to_yaml(loaded_); }

  const config::Loaded& loaded() const { return loaded_; }

 private:
  config::Loaded loaded_;
};

/// Reads a YAML file (local, gs:// or s3://) and applies the `key=value` overrides. For sampling,
/// `file` may also be a pipeline's folder or hub id, or the .json of a video or a picture made by
/// kinema; settings that are not used from it are reported to the observer. Names are relative to
/// the working directory; configurations installed with kinema are in its share/kinema, which CMake
/// projects get as kinema_DATADIR.
Config load_config(const std::string& file, const std::vector<std::string>& overrides = {},
                   const Observer& observer = {});

using jobs::ConvertOptions;
using jobs::ConvertResult;
using jobs::EvaluateResult;
using jobs::GenerateObserver;
using jobs::GenerateResult;
using jobs::GenerateStart;
using jobs::PlanMode;
using jobs::PlanOptions;
using jobs::PreparedFolder;
using jobs::PrepareObserver;
using jobs::PrepareResult;
using jobs::ProcessSetup;
using jobs::StepRecord;
using jobs::TrainObserver;
using jobs::TrainResult;
using jobs::TrainStart;
using jobs::VerifyObserver;
using jobs::VerifyOptions;

/// Trains, or resumes the run of that name: `kinema train`.
TrainResult train(const Config& config, const TrainObserver& observer = {},
                  const JobOptions& options = {});

/// Generates videos or images from prompts: `kinema generate`.
GenerateResult generate(const Config& config, const GenerateObserver& observer = {},
                        const JobOptions& options = {});

/// Encodes clips and captions into TFRecords: `kinema prepare`.
PrepareResult prepare(const Config& config, const PrepareObserver& observer = {},
                      const JobOptions& options = {});

/// The loss of a run's checkpoint, or of a pretrained model, on eval_data_dir.
EvaluateResult evaluate(const Config& config, const Observer& observer = {},
                        const JobOptions& options = {});

/// Whether the step fits into other devices, and how fast it could be: `kinema plan`.
/// `options.job.program` compiles; if empty, the `kinema` in the search path.
planning::Report plan(const Config& config, const PlanOptions& options,
                      const Observer& observer = {});

/// Compares this build and the configuration's devices with reference cases: `kinema verify`.
verification::Report verify(const std::string& folder, const Config& config = {},
                            const VerifyOptions& options = {}, const VerifyObserver& observer = {});

/// Writes a transformer or a LoRA file for another program: `kinema convert`.
ConvertResult convert(const std::string& source, const std::string& target,
                      const ConvertOptions& options, const Observer& observer = {});

#ifdef KINEMA_PLUGIN_FOLDER  // by find_package
namespace detail {
inline const bool kPluginFolderKnown = runtime::remember_plugin_folder(KINEMA_PLUGIN_FOLDER);
}
#endif

}  // namespace kinema
