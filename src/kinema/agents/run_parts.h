#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "kinema/agents/device.h"
#include "kinema/agents/learner.h"
#include "kinema/agents/settings.h"
#include "kinema/environments/group.h"
#include "kinema/replay/replay.h"

/// What settings say, as the parts of a run.
namespace kinema::agents {

/// `logdir` with its time filled in, or `output_dir`/`run_name`.
std::filesystem::path run_folder(const Settings& settings);

/// The environments of a task: `count` of them from index `first` on.
std::unique_ptr<environments::Group> open_environments(const Settings& settings, int64_t count,
                                                       int64_t first, uint64_t seed);

BatchSize batch_size(const Settings& settings);
LearnerOptions learner_options(const Settings& settings);

/// What the replay of a run takes when it is full.
struct ReplaySize {
  int64_t steps = 0;
  int64_t step_bytes = 0;
  double memory = 0;  // bytes of steps in memory, at most: replay.memory_gib
  double bytes() const { return static_cast<double>(steps) * static_cast<double>(step_bytes); }
  /// More than may be in memory: files in RUN/replay, a part of which is mapped.
  bool is_on_disk() const { return bytes() > memory; }
};
ReplaySize replay_size(const Settings& settings, const dreamer::AgentConfig& config);
/// The same as a line for people.
std::string replay_text(const ReplaySize& size, const std::filesystem::path& run);
/// `run`: the folder of the run.
std::shared_ptr<replay::Replay> make_replay(const Settings& settings,
                                            const dreamer::AgentConfig& config,
                                            const std::filesystem::path& run);
inline constexpr const char* kReplay = "replay";

/// The newest checkpoint of a run; throws an Error if it has none.
std::filesystem::path newest_checkpoint(const std::filesystem::path& run);
/// The file of an agent at a path: itself; `agent.safetensors` of a checkpoint, or of the newest
/// one of a run; or, of the original's folders, `agent.pkl` beside or below `latest`. Throws an
/// Error if there is none.
std::filesystem::path agent_file(const std::filesystem::path& from);
inline constexpr const char* kCheckpoints = "ckpt";
inline constexpr const char* kSettingsFile = "config.yaml";
inline constexpr const char* kAgentFile = "agent.safetensors";

}  // namespace kinema::agents
