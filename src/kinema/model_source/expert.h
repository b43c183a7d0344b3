#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kinema/config/choices.h"

namespace kinema::model_source {

/// The transformer of a pipeline that is trained, and the timesteps that it is trained at; or both.
struct Expert {
  config::TrainExpert which = config::TrainExpert::NONE;
  double min_timestep = 0;
  double max_timestep = 1000;
  std::optional<double> boundary_ratio;  // with two experts

  /// The timestep that divides two: from here up it is high noise.
  double boundary() const { return 1000 * boundary_ratio.value_or(0); }

  /// All timesteps of one network.
  bool is_whole() const { return min_timestep <= 0 && max_timestep >= 1000; }
  /// Whether its pipeline has two.
  bool is_of_two() const { return which != config::TrainExpert::NONE; }
  bool is_both() const { return which == config::TrainExpert::BOTH; }
  /// This one; of both each, high noise first, at the timesteps of its side.
  std::vector<Expert> each() const;
  /// Its folder in a pipeline and in a checkpoint: `transformer`, or `transformer_2` for low noise.
  std::string part() const;
  /// That of the other one of two.
  std::string other_part() const;
  bool is_low_noise() const { return which == config::TrainExpert::LOW_NOISE; }
  /// `high_noise`.
  std::string_view name() const { return config::word_of(which); }
  /// `timesteps 875 to 1000`; of both also how they are shared out.
  std::string timesteps() const;
};

}  // namespace kinema::model_source
