#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

/// The keys in a run's config.yml for commands that only read the run.
namespace kinema::resolve {

struct RunKeys {
  int64_t max_steps = 0;              // 0: unknown
  std::filesystem::path metrics;      // empty: metrics.jsonl of the run folder
  std::filesystem::path checkpoints;  // empty: in the run folder
  /// Every key with its value as YAML, in order of declaration.
  std::vector<std::pair<std::string, std::string>> all;
};

/// Throws the errors of config::load.
RunKeys read_run_keys(const std::filesystem::path& config_yml);

}  // namespace kinema::resolve
