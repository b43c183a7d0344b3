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
#include "kinema/jobs/prepare.h"
#include "kinema/jobs/process_setup.h"
#include "kinema/jobs/train.h"
#include "kinema/jobs/verify.h"
#include "kinema/plans/plan.h"
#include "kinema/runtime/client.h"

/// The functions of the program `kinema`. Each takes a configuration and an observer, and returns a
/// result or throws kinema::Error. They print nothing, and change no signal handler, environment
/// variable, allocator or log handler of the process; only ProcessSetup does, if it is called.
/// XLA's plugins print their own log lines, as TF_CPP_MIN_LOG_LEVEL allows.
///
///     kinema::Config config = kinema::load_config("my_run.yml", {"run_name=first"});
///     const kinema::TrainResult trained = kinema::train(config);
namespace kinema {

/// The keys of a run with the origin of each value; docs/reference/config.md lists them.
class Config {
 public:
  /// The defaults.
  Config() = default;
  explicit Config(config::Loaded loaded) : loaded_(std::move(loaded)) {}

  /// Sets a key, like `key=value` on the command line. Throws an Error for an unknown key, with the
  /// most similar one, and for an invalid value.
  Config& set(const std::string& key, const std::string& value) {
    config::set(loaded_, key, value);
    return *this;
  }
  Config& set(const std::string& key, const char* value) { return set(key, std::string(value)); }
  template <typename T>
  requires std::integral<T> || std::floating_point<T> Config& set(const std::string& key, T value) {
    return set(key, fmt::format("{}", value));
  }
  /// All keys, as a file that load_config reads.
  std::string to_yaml() const { return config::to_yaml(loaded_); }

  const config::Loaded& loaded() const { return loaded_; }

 private:
  config::Loaded loaded_;
};

/// Reads a YAML file (a local path, gs:// or s3://) with `key=value` overrides. For sampling,
/// `file` may also be a pipeline's folder or hub id, or the .json of a video or a picture that
/// kinema made; the observer receives log lines about settings that are not used. Paths are
/// relative to the working directory; the configurations that are installed with kinema are in its
/// share/kinema, which is kinema_DATADIR in CMake projects.
Config load_config(const std::string& file, const std::vector<std::string>& overrides = {},
                   const Observer& observer = {});

using jobs::ConvertOptions;
using jobs::ConvertResult;
using jobs::EvaluateResult;
using jobs::GenerateObserver;
using jobs::GenerateResult;
using jobs::GenerateStart;
using jobs::Generator;
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
using plans::PlanMode;
using plans::PlanOptions;

/// Trains, or resumes the run with this name: `kinema train`.
TrainResult train(const Config& config, const TrainObserver& observer = {},
                  const JobOptions& options = {});

/// Generates videos or images from prompts: `kinema generate`.
GenerateResult generate(const Config& config, const GenerateObserver& observer = {},
                        const JobOptions& options = {});

/// Encodes clips and captions as TFRecords: `kinema prepare`.
PrepareResult prepare(const Config& config, const PrepareObserver& observer = {},
                      const JobOptions& options = {});

/// Returns the loss of a run's checkpoint, or of a pretrained model, on eval_data_dir: `kinema
/// evaluate`.
EvaluateResult evaluate(const Config& config, const Observer& observer = {},
                        const JobOptions& options = {});

/// Predicts whether a step fits devices that you do not have, and its speed: `kinema plan`.
/// `options.job.program` compiles; by default the `kinema` in PATH.
planning::Report plan(const Config& config, const PlanOptions& options,
                      const Observer& observer = {});

/// Compares this build and the configuration's devices with reference cases: `kinema verify`.
verification::Report verify(const std::string& folder, const Config& config = {},
                            const VerifyOptions& options = {}, const VerifyObserver& observer = {});

/// Writes a transformer or a LoRA file with the names and layout of another program: `kinema
/// convert`.
ConvertResult convert(const std::string& source, const std::string& target,
                      const ConvertOptions& options, const Observer& observer = {});

#ifdef KINEMA_PLUGIN_FOLDER  // by find_package
namespace detail {
inline const bool kPluginFolderKnown = runtime::remember_plugin_folder(KINEMA_PLUGIN_FOLDER);
}
#endif

}  // namespace kinema
