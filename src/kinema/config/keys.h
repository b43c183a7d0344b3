#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kinema/config/config.h"

namespace kinema::config {

/// One key as text: for printing, saving and documenting.
struct KeyValue {
  std::string_view key;
  std::string_view group;  ///< "run", "model", ...
  std::string_view type;   ///< "integer", "number", "true or false", "text", "list of ...", "any"
  std::string value;       ///< as YAML that reads back to the same value
  OnResume on_resume;
  Field field;
};

/// Every key of `config` in order of declaration.
std::vector<KeyValue> describe(const Config& config);

/// Whether a value, as KeyValue::value has it, turns on what hangs on `with` (Field::with): no
/// zero, no -1 and not empty, or, where that is KEY=VALUE, the value.
bool turns_on(std::string_view value, std::string_view with);

/// A MaxDiffusion key that is accepted and has no meaning here.
struct IgnoredKey {
  std::string_view key;
  std::string_view reason;
};
std::span<const IgnoredKey> ignored_keys();

/// True when `key` is one of ignored_keys().
bool is_ignored(std::string_view key);

/// The known key (ignored ones included) nearest to `key`.
std::string nearest_key(std::string_view key);

/// What to say behind "there is no key": what other trainers' key corresponds to, that it is not
/// built, or the nearest key where one is near.
std::string unknown_key_hint(std::string_view key);

/// What a value must be, for messages and docs: "an integer from 1 to 1000", "one of a, b".
std::string expectation(std::string_view type, const Field& field);

}  // namespace kinema::config
