#pragma once

#include <memory>
#include <string>
#include <utility>

#include "kinema/config/config.h"

namespace kinema::resolve {

/// The immutable settings of a command: every key with its origin. Jobs pass them to this module's
/// functions, which know the keys and return what follows from them: a mesh, a training step, a
/// data set. Copies share one configuration.
class Settings {
 public:
  Settings() : Settings(config::Loaded{}) {}
  Settings(config::Loaded loaded)  // NOLINT(*-explicit-*): load and with_... return Loaded
      : loaded_(std::make_shared<const config::Loaded>(std::move(loaded))) {}

  operator const config::Loaded&() const { return *loaded_; }         // NOLINT(*-explicit-*)
  operator const config::Config&() const { return loaded_->config; }  // NOLINT(*-explicit-*)

  /// A copy with another value of a key, parsed as in `key=value` on the command line. Throws an
  /// Error for an unknown key or an invalid value.
  Settings with(const std::string& key, const std::string& value) const {
    config::Loaded out = *loaded_;
    config::set(out, key, value);
    return out;
  }

 private:
  std::shared_ptr<const config::Loaded> loaded_;
};

}  // namespace kinema::resolve
