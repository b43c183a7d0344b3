#pragma once

#include "models/vae/coder.h"
#include "verify/session.h"

namespace kinema::verify {

/// How VAEs are computed in this run.
vae::Options vae_options(const Session& session);

}  // namespace kinema::verify
