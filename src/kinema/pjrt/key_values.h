#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

namespace kinema::pjrt {

/// Keys and values that the plugins of several processes share while they join their devices, and
/// later. Called from any of a plugin's threads, several at a time; values may hold any bytes. What
/// throws an Error is an error of the plugin's call, with its text.
struct KeyValues {
  std::function<void(const std::string& key, const std::string& value)> put;
  /// Waits until some process has put the key; throws an Error when none did in time.
  std::function<std::string(const std::string& key, std::chrono::milliseconds timeout)> get;
  /// Nothing when no process has put it yet.
  std::function<std::optional<std::string>(const std::string& key)> try_get;

  explicit operator bool() const { return put && get && try_get; }
};

}  // namespace kinema::pjrt
