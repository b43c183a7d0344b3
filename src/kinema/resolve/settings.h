#pragma once

#include <memory>
#include <string>
#include <utility>

#include "kinema/config/config.h"

namespace kinema::resolve {

/// The settings of a command: every key with where it came from, never changed once made. Jobs hand
/// them to this room's functions, which know the keys and return what follows from them: a mesh, a
/// training step, a data set. Copies share one configuration.
class Settings {
 public:
  Settings() : Settings(config::Loaded{}) {}
  Settings(config::Loaded loaded)  // NOLINT(*-explicit-*): what load and with_... return
      : loaded_(std::make_shared<const config::Loaded>(std::move(loaded))) {}

  operator const config::Loaded&() const { return *loaded_; }         // NOLINT(*-explicit-*)
  operator const config::Config&() const { return loaded_->config; }  // NOLINT(*-explicit-*)

  /// These with another value of a key, as `key=value` on the command line gives it. Throws an
  /// Error for a key that does not exist and a value that it cannot have.
  Settings with(const std::string& key, const std::string& value) const {
    config::Loaded out = *loaded_;
    config::set(out, key, value);
    return out;
  }

 private:
  std::shared_ptr<const config::Loaded> loaded_;
};

}  // namespace kinema::resolve
