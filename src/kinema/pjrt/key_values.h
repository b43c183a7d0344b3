#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

namespace kinema::pjrt {

/// Keys and values shared by the plugins of several processes, while they connect and later. Called
/// from several of a plugin's threads; values may have any bytes. An Error becomes an error of the
/// plugin's call.
struct KeyValues {
  std::function<void(const std::string& key, const std::string& value)> put;
  /// Waits until a process has put the key; throws an Error after the timeout.
  std::function<std::string(const std::string& key, std::chrono::milliseconds timeout)> get;
  /// Nothing if no process has put the key yet.
  std::function<std::optional<std::string>(const std::string& key)> try_get;

  explicit operator bool() const { return put && get && try_get; }
};

}  // namespace kinema::pjrt
