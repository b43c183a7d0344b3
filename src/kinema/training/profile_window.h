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
  int64_t skip_first = 5;  // steps of this process before the first that is recorded
  int64_t steps = 10;
};

/// Records some steps of a run: what this program's threads do, and what the plugin's profiler,
/// where it has one, says of the devices.
class ProfileWindow {
 public:
  /// `folder` will hold plugins/profile/TIME/HOST.xplane.pb (XSpace) and HOST.trace.json.gz.
  /// Throws an Error where steps first_step .. max_steps - 1 end before the first that is recorded.
  ProfileWindow(ProfileOptions options, const pjrt::Plugin& plugin, std::filesystem::path folder,
                int64_t first_step, int64_t max_steps);
  ProfileWindow(const ProfileWindow&) = delete;
  ProfileWindow& operator=(const ProfileWindow&) = delete;
  ~ProfileWindow();

  /// Called before each step: begins the recording or ends it. Returns a line about what was
  /// written, or nothing.
  std::string before_step(int64_t step);
  /// Called after the last step: ends a recording that is under way.
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
