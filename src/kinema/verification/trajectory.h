#pragma once

#include "kinema/core/host_array.h"
#include "kinema/schedulers/schedule.h"

namespace kinema::verification {

/// What a schedule makes of a sample, step by step.
struct Followed {
  HostArray samples;  // [steps + 1, ...], the first is the one given
  HostArray inputs;   // [steps, ...]: what the model was shown
  HostArray outputs;  // [steps, ...]: what it said
};

/// From `x`, with the model outputs [steps, ...] given or, where there are none, those of the
/// fixtures' stand-in for a model, v(x, t) = (0.4 + t/2000) x - 0.5 cond + 0.1 sin(3 x).
Followed follow(const schedulers::Schedule& schedule, const HostArray& x, const HostArray& cond,
                const HostArray* outputs = nullptr);

}  // namespace kinema::verification
