#pragma once

#include <optional>

#include "kinema/schedulers/diffusion.h"
#include "kinema/schedulers/flow_match.h"
#include "kinema/schedulers/schedule.h"

namespace kinema::schedulers {

/// What the networks of a family were trained to predict, a rectified flow or a diffusion, which is
/// also the default for training them further; and the default sampler for a model without a
/// scheduler_config.json.
struct Learned {
  FlowMatch flow = {};
  std::optional<Diffusion> diffusion = {};
  ScheduleConfig sampled = {};
  /// Training draws from the sampler's noise levels: the shift of the model's scheduler replaces
  /// the flow's.
  bool trains_with_sampled_shift = false;
};

}  // namespace kinema::schedulers
