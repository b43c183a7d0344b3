#pragma once

#include <functional>
#include <string>
#include <vector>

#include "kinema/job/job.h"
#include "kinema/resolve/settings.h"
#include "kinema/verification/verify.h"

/// Compares this build and a configuration's devices with reference cases: `kinema verify`.
namespace kinema::jobs {

struct VerifyOptions {
  std::string filter;    // only cases whose name contains this
  bool scan_on = true;   // blocks as a scan
  bool scan_off = true;  // blocks unrolled
  JobOptions job;
};

/// Compares the device's kernels of attention, and of norm and rotation if it has one, with the
/// same programs without them: `kinema verify --kernels`. Differences are in the report.
verification::Report verify_kernels(const resolve::Settings& config, const JobOptions& options,
                                    const Observer& observer);

struct VerifyObserver : Observer {
  std::function<void(const std::vector<verification::Row>&)> on_case;
};

/// Throws an Error for a folder without cases; differences are in the report.
verification::Report verify(const std::string& folder, const resolve::Settings& config,
                            const VerifyOptions& options, const VerifyObserver& observer);

}  // namespace kinema::jobs
