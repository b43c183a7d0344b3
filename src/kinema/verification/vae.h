#pragma once

#include "kinema/models/vae/coder.h"
#include "kinema/verification/session.h"

namespace kinema::verification {

/// Limit of the fixtures' README for float32.
inline constexpr double kVaeAbsolute = 1e-4;

/// How VAEs are computed in this run.
vae::Options vae_options(const Session& session);

}  // namespace kinema::verification
