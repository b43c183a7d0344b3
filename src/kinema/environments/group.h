#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kinema/environments/environment.h"

namespace kinema::environments {

/// Step of each environment of a group, arrays [n, ...] by name.
struct GroupSteps {
  Arrays observations;
  std::vector<float> reward;
  std::vector<uint8_t> is_first;
  std::vector<uint8_t> is_last;
  std::vector<uint8_t> is_terminal;
  Arrays log;  // F32 [n] each
};

/// Environments with the same spaces that are stepped together: in this process, in Python
/// processes, or on another host.
class Group {
 public:
  virtual ~Group() = default;
  virtual const Spaces& observations() const = 0;
  virtual const Spaces& actions() const = 0;
  virtual int64_t size() const = 0;
  /// Frames of the environment for each step; statistics count frames.
  virtual int64_t repeat() const { return 1; }
  /// Starts a step of all environments, with actions [n, ...] by name. Where `reset` [n] is not 0,
  /// the action is ignored and a new episode starts.
  virtual void begin(const Arrays& actions, std::span<const uint8_t> reset) = 0;
  /// Waits for the step that `begin` started. Throws an Error if an environment failed more often
  /// than it is restarted. One that was restarted returns the first step of a new episode.
  virtual GroupSteps end() = 0;
  /// The state between two steps, as text from which restore() continues bit for bit; nothing where
  /// environments cannot be restored, as those in Python: they start with new episodes.
  virtual std::optional<std::string> state() const { return std::nullopt; }
  /// Continues from the state() of a group that was opened with the same options. Throws an Error
  /// for text from another group, and where state() returns nothing.
  virtual void restore(std::string_view state);
};

struct GroupOptions {
  std::string task;      // SUITE_NAME: native_catch, gymnasium_CartPole-v1, module:make, ...
  int64_t count = 1;     // environments
  int64_t first = 0;     // the index of the first one, of all groups
  uint64_t seed = 0;     // an environment's randomness depends on seed and index
  std::string settings;  // JSON object with the suite's settings (env.SUITE in configs/dreamer.yml)
  std::string python = "python3";  // the interpreter of environments in Python
  std::string address;             // HOST:PORT of a remote group; empty: on this host
  std::string token;               // which a remote group must present
  double step_timeout_seconds = 60.0;
  std::string output;  // file to which is appended what environments in Python print; empty: none
};

/// Opens a group of environments, with the wrappers that all have: continuous actions are
/// normalised to [-1, 1] and clipped, dtypes are F32, U8 and S32, and values are checked against
/// their spaces. Throws an Error that names the task, and the nearest one for an unknown name.
std::unique_ptr<Group> open_group(const GroupOptions& options);

}  // namespace kinema::environments
