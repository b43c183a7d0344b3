#pragma once

#include <string>

#include "kinema/pjrt/plugin.h"

namespace kinema::pjrt {

/// A plugin's profiler, which records what its devices do.
class Profiler {
 public:
  /// True if the plugin has one (the CPU plugin has not).
  static bool is_available(const Plugin& plugin);

  /// Starts recording. Throws an Error if the plugin has no profiler, has one with an unknown
  /// layout, or fails.
  explicit Profiler(const Plugin& plugin);
  Profiler(const Profiler&) = delete;
  Profiler& operator=(const Profiler&) = delete;
  ~Profiler();

  /// Stops the recording and returns it: a serialized `tensorflow.profiler.XSpace`.
  std::string stop();

 private:
  const void* api_;  // the plugin's table of functions
  void* session_ = nullptr;
  bool is_running_ = false;
};

}  // namespace kinema::pjrt
