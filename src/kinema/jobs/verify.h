#pragma once

#include <functional>
#include <string>
#include <vector>

#include "kinema/job/job.h"
#include "kinema/resolve/settings.h"
#include "kinema/verification/verify.h"

/// This build and a configuration's devices against reference cases: `kinema verify`.
namespace kinema::jobs {

struct VerifyOptions {
  std::string filter;    // only cases whose name contains this
  bool scan_on = true;   // blocks as a loop
  bool scan_off = true;  // blocks one by one
  JobOptions job;
};

/// The device's kernels of attention, and of norm and rotation where it has one, against the same
/// programs without them: `kinema verify --kernels`. What does not agree is in the report.
verification::Report verify_kernels(const resolve::Settings& config, const JobOptions& options,
                                    const Observer& observer);

struct VerifyObserver : Observer {
  std::function<void(const std::vector<verification::Row>&)> on_case;
};

/// Throws an Error for a folder without cases; what does not agree is in the report.
verification::Report verify(const std::string& folder, const resolve::Settings& config,
                            const VerifyOptions& options, const VerifyObserver& observer);

}  // namespace kinema::jobs
