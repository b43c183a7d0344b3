#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "kinema/world/engine.h"

namespace kinema::world {

/// Keys and values that all processes see, for plugins that find each other with them. Those of one
/// object do not meet those of another; all processes make theirs in the same order. Any thread may
/// call.
class Keys {
 public:
  /// `failed` is asked while a call waits: an error of another process, or an empty string.
  explicit Keys(std::shared_ptr<Engine> engine, std::function<std::string()> failed = {});

  void put(const std::string& key, const std::string& value);
  /// Waits until a process has put the key. Throws an Error when none has in time, and what
  /// `failed` says.
  std::string get(const std::string& key, std::chrono::milliseconds timeout);
  /// Nothing when no process has put it yet.
  std::optional<std::string> find(const std::string& key);

 private:
  std::string full(const std::string& key) const;

  std::shared_ptr<Engine> engine_;
  std::function<std::string()> failed_;
  std::string prefix_;
};

}  // namespace kinema::world
