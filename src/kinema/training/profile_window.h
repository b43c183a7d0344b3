#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "kinema/pjrt/plugin.h"
#include "kinema/pjrt/profiler.h"

namespace kinema::training {

struct ProfileOptions {
  int64_t skip_first = 5;  // steps of this process before the first recorded one
  int64_t steps = 10;
};

/// Records some steps of a run: kinema's threads, and the devices if the plugin has a profiler.
class ProfileWindow {
 public:
  /// `folder` will contain plugins/profile/TIME/HOST.xplane.pb (XSpace) and HOST.trace.json.gz.
  /// Throws an Error if steps first_step .. max_steps - 1 end before the first recorded step.
  ProfileWindow(ProfileOptions options, const pjrt::Plugin& plugin, std::filesystem::path folder,
                int64_t first_step, int64_t max_steps);
  ProfileWindow(const ProfileWindow&) = delete;
  ProfileWindow& operator=(const ProfileWindow&) = delete;
  ~ProfileWindow();

  /// Called before each step: starts or stops the recording. Returns a log line about the written
  /// files, or an empty string.
  std::string before_step(int64_t step);
  /// Called after the last step: stops a running recording.
  std::string finish();

 private:
  std::string write();

  const pjrt::Plugin& plugin_;
  std::filesystem::path folder_;
  int64_t first_, last_;
  int64_t reached_ = 0;
  std::unique_ptr<pjrt::Profiler> devices_;
  bool is_running_ = false;
};

}  // namespace kinema::training
