#include "kinema/kinema.h"

#include "kinema/core/folders.h"
#include "kinema/resolve/load.h"

namespace kinema {

Config load_config(const std::string& file, const std::vector<std::string>& overrides,
                   const Observer& observer) {
  check(!file.empty() && file.find('=') == std::string::npos,
        "[config] load_config is given `{}`, expected a YAML file, a model's folder or its hub id\n"
        "  key=value words are its second argument",
        file);
  std::vector<std::string> words{file};
  words.insert(words.end(), overrides.begin(), overrides.end());
  return with_file_errors(
      [&] { return Config(resolve::load_generation(words, {}, Job(observer, {}))); });
}

TrainResult train(const Config& config, const TrainObserver& observer, const JobOptions& options) {
  return with_file_errors([&] { return jobs::train(config.loaded(), observer, options); });
}

GenerateResult generate(const Config& config, const GenerateObserver& observer,
                        const JobOptions& options) {
  return with_file_errors([&] { return jobs::generate(config.loaded(), observer, options); });
}

PrepareResult prepare(const Config& config, const PrepareObserver& observer,
                      const JobOptions& options) {
  return with_file_errors([&] { return jobs::prepare(config.loaded(), observer, options); });
}

EvaluateResult evaluate(const Config& config, const Observer& observer, const JobOptions& options) {
  return with_file_errors([&] { return jobs::evaluate(config.loaded(), observer, options); });
}

planning::Report plan(const Config& config, const PlanOptions& options, const Observer& observer) {
  return with_file_errors([&] { return plans::plan(config.loaded(), options, observer); });
}

verification::Report verify(const std::string& folder, const Config& config,
                            const VerifyOptions& options, const VerifyObserver& observer) {
  return with_file_errors([&] { return jobs::verify(folder, config.loaded(), options, observer); });
}

ConvertResult convert(const std::string& source, const std::string& target,
                      const ConvertOptions& options, const Observer& observer) {
  return with_file_errors([&] { return jobs::convert(source, target, options, observer); });
}

}  // namespace kinema
