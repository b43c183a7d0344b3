#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include "kinema/agents/driver.h"
#include "kinema/agents/episode_player.h"
#include "kinema/agents/learner.h"
#include "kinema/agents/open_loop.h"
#include "kinema/agents/run_logs.h"
#include "kinema/agents/run_parts.h"
#include "kinema/agents/train.h"
#include "kinema/checkpoints/checkpoint_folder.h"
#include "kinema/core/stopwatch.h"
#include "kinema/replay/rates.h"

namespace kinema::agents {

/// A run of training: its parts, and where it is.
///
/// A step of training begins when it is due and ends when the next one is; between them the agent
/// acts. A checkpoint is written when no step of training runs and the next one is due, where an
/// undisturbed run has nothing under way either.
class TrainRun {
 public:
  TrainRun(const Settings& settings, const TrainObserver& observer, const Job& job,
           std::filesystem::path folder);

  /// Reads the newest checkpoint, if there is one.
  TrainStart start();
  TrainResult run();

 private:
  /// Numbers that a checkpoint keeps.
  struct Counts {
    int64_t step = 0;
    int64_t calls = 0;  // of the policy
    int64_t episodes = 0;
    int64_t due = 0;  // steps of training
    int64_t next_driver = 0;
    int64_t part = 0;  // of the sampled windows, with consec_train above 1
  };

  void open_drivers();
  /// True if the run is to stop here; saves where that is due.
  bool pause();
  void act();
  void begin_training();
  void end_training();
  replay::Arrays next_batch();
  /// With script train_eval: plays episodes in other environments when it is due.
  void evaluate_if_due();
  bool report_is_due() const;
  /// Writes what the world model predicts of the last batch: open_loop/STEP.mp4.
  void report();
  void log_if_due();
  void log();
  TrainProgress progress() const;

  void save();
  void write_checkpoint(const std::filesystem::path& folder);
  bool restore(const std::filesystem::path& folder);
  int64_t frames() const { return counts_.step * repeat_; }

  Settings settings_;
  TrainObserver observer_;
  Job job_;
  std::filesystem::path folder_;
  Device device_;
  BatchSize batch_;
  dreamer::AgentConfig config_;
  std::shared_ptr<replay::Replay> replay_;
  std::unique_ptr<Learner> learner_;  // null: a random agent
  std::vector<std::unique_ptr<Driver>> drivers_;
  std::vector<std::string> spaces_;
  int64_t repeat_ = 1;
  replay::StepRatio ratio_;
  checkpoints::CheckpointFolder checkpoints_;
  std::unique_ptr<RunLogs> logs_;

  Counts counts_;
  int64_t saved_step_ = -1;
  replay::Arrays windows_;
  replay::Arrays reported_;              // the batch in training, if a report follows
  std::unique_ptr<OpenLoop> open_loop_;  // from the first report on
  std::unique_ptr<EpisodePlayer> evaluation_;
  Stopwatch since_evaluation_;
  struct Scored {
    int64_t step = 0;  // of the environments, at the end of the episode
    double score = 0;
    double length = 0;
  };
  std::deque<Scored> last_episodes_;  // those of the score that is shown
  Means train_means_;
  Means episode_means_;
  std::vector<std::pair<std::string, double>> losses_;  // of the last line
  Stopwatch since_start_;
  Stopwatch since_save_;
  Stopwatch since_report_;
  Stopwatch since_log_;
  Stopwatch since_progress_;
  int64_t logged_step_ = 0;
  int64_t logged_updates_ = 0;
  int64_t first_step_ = 0;
  double train_seconds_ = 0;
};

}  // namespace kinema::agents
