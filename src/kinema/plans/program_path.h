#pragma once

#include "kinema/job/job.h"

namespace kinema::plans {

/// Options with a program: the named one, or the kinema in PATH. Throws an Error if there is none.
JobOptions with_program(JobOptions options);

}  // namespace kinema::plans
