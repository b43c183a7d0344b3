#pragma once

#include "kinema/core/host_array.h"

namespace kinema::verification {

/// The sigma_min with which a case's sigmas [b] were made from its timesteps [b].
double sigma_min_of(const HostArray& timestep, const HostArray& sigma);

}  // namespace kinema::verification
