#pragma once

#include "core/host_array.h"

namespace kinema::verify {

/// The sigma_min with which a case's sigmas [b] were made from its timesteps [b].
double sigma_min_of(const HostArray& timestep, const HostArray& sigma);

}  // namespace kinema::verify
