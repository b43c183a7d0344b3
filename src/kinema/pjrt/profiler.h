#pragma once

#include <string>

#include "kinema/pjrt/plugin.h"

namespace kinema::pjrt {

/// A plugin's own profiler, which records what its devices do.
class Profiler {
 public:
  /// Whether the plugin has one (the CPU plugin has none).
  static bool is_offered(const Plugin& plugin);

  /// Begins to record. Throws an Error when the plugin has no profiler, has one of a layout that is
  /// not known, or refuses.
  explicit Profiler(const Plugin& plugin);
  Profiler(const Profiler&) = delete;
  Profiler& operator=(const Profiler&) = delete;
  ~Profiler();

  /// Ends the recording and returns it: a serialized `tensorflow.profiler.XSpace`.
  std::string stop();

 private:
  const void* api_;  // the plugin's table of functions
  void* session_ = nullptr;
  bool is_running_ = false;
};

}  // namespace kinema::pjrt
