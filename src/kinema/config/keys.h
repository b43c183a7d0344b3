#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kinema/config/config.h"

namespace kinema::config {

/// One key as text, for printing, saving and documentation.
struct KeyValue {
  std::string_view key;
  std::string_view group;  ///< "run", "model", ...
  std::string_view type;   ///< "integer", "number", "true or false", "text", "list of ...", "any"
  std::string value;       ///< as YAML, which parses to the same value
  OnResume on_resume;
  Field field;
};

/// All keys of `config` in order of declaration.
std::vector<KeyValue> describe(const Config& config);

/// True if a value (KeyValue::value) enables the keys that need `with` (Field::with): it is not 0,
/// -1 or empty; for KEY=VALUE, it is VALUE, and for KEY=VALUE | OTHER one of these.
bool is_switched_on(std::string_view value, std::string_view with);

/// A MaxDiffusion key that is accepted and ignored.
struct IgnoredKey {
  std::string_view key;
  std::string_view reason;
};
std::span<const IgnoredKey> ignored_keys();

/// True when `key` is one of ignored_keys().
bool is_ignored(std::string_view key);

/// The known key (including ignored ones) that is most similar to `key`.
std::string nearest_key(std::string_view key);

/// The text after "there is no key": the corresponding key of another trainer's, that it is not
/// built, or a similar key.
std::string unknown_key_hint(std::string_view key);

/// The valid values of a key, for messages and docs: "an integer from 1 to 1000", "one of a, b".
std::string expectation(std::string_view type, const Field& field);

}  // namespace kinema::config
