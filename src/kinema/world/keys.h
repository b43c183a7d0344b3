#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "kinema/world/engine.h"

namespace kinema::world {

/// Keys and values that all processes see, for the rendezvous of plugins. Objects have separate
/// keys; all processes create theirs in the same order. Thread-safe.
class Keys {
 public:
  /// `failed` is polled during waits: it returns another process's error, or an empty string.
  explicit Keys(std::shared_ptr<Engine> engine, std::function<std::string()> failed = {});

  void put(const std::string& key, const std::string& value);
  /// Waits until a process has put the key. Throws an Error after the timeout, and the error of
  /// `failed`.
  std::string get(const std::string& key, std::chrono::milliseconds timeout);
  /// Nothing if no process has put the key yet.
  std::optional<std::string> find(const std::string& key);

 private:
  std::string full(const std::string& key) const;

  std::shared_ptr<Engine> engine_;
  std::function<std::string()> failed_;
  std::string prefix_;
};

}  // namespace kinema::world
