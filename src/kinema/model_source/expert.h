#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kinema/config/choices.h"

namespace kinema::model_source {

/// The trained transformer of a pipeline and the timesteps that it is trained at; or both
/// transformers.
struct Expert {
  config::TrainExpert which = config::TrainExpert::NONE;
  double min_timestep = 0;
  double max_timestep = 1000;
  std::optional<double> boundary_ratio;  // with two experts

  /// The timestep that divides two experts: high noise starts there.
  double boundary() const { return 1000 * boundary_ratio.value_or(0); }

  /// True if one network has all timesteps.
  bool is_whole() const { return min_timestep <= 0 && max_timestep >= 1000; }
  /// True if the pipeline has two experts.
  bool is_of_two() const { return which != config::TrainExpert::NONE; }
  bool is_both() const { return which == config::TrainExpert::BOTH; }
  /// This expert; for both, each of them with its timesteps, high noise first.
  std::vector<Expert> each() const;
  /// The expert's folder in a pipeline and in a checkpoint: `transformer`, or `transformer_2` for
  /// low noise.
  std::string part() const;
  /// The folder of the other expert.
  std::string other_part() const;
  bool is_low_noise() const { return which == config::TrainExpert::LOW_NOISE; }
  /// `high_noise`.
  std::string_view name() const { return config::word_of(which); }
  /// `timesteps 875 to 1000`; for both experts also their division.
  std::string timesteps() const;
};

}  // namespace kinema::model_source
