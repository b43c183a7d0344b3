#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "kinema/flags/platform.h"

namespace kinema::flags {

/// The environment variable that takes a flag.
enum class Variable : uint8_t { LIBTPU_INIT_ARGS, XLA_FLAGS, BOTH };

/// The type of a flag's value. A TRISTATE is ENABLED, DISABLED or AUTO; WORD is one of a set of
/// words, WORDS a comma-separated list of them.
enum class Type : uint8_t { BOOL, TRISTATE, INTEGER, NUMBER, TEXT, WORD, WORDS };

/// A compiler flag and what is known about it.
struct Flag {
  std::string_view name;
  Backend backend = Backend::ANY;
  Variable variable = Variable::XLA_FLAGS;
  Type type = Type::BOOL;
  /// The default by plugin and first version, oldest first: "libtpu 0.0.30: AUTO; libtpu 0.0.42.1:
  /// ENABLED". `xla` stands for every plugin without an entry of its own. Instead of a value:
  /// `unset` (the compiler decides by target), `absent` (not known yet), `removed` (no longer
  /// known), `renamed` (the variable still maps it to the replacement, a program's options do not
  /// have it), `ignored` (the variable accepts it without effect).
  std::string_view defaults;
  std::string_view meaning;
  std::string_view hazard = "";
  std::string_view source;
  std::string_view words = "";        ///< WORD, WORDS: the allowed words, "a | b"; empty: any
  std::string_view replacement = "";  ///< the flag to set instead of a removed or renamed one
  std::string_view wire = "";  ///< WORD: prefix of the word in a program's option, in capitals
  bool any_case = false;       ///< WORD: XLA_FLAGS also accepts capitals
  bool per_program = true;     ///< false: only the variable accepts it, not a program's options
};

/// A flag's state in one plugin version.
struct State {
  enum class Kind : uint8_t { PRESENT, ABSENT, REMOVED, RENAMED, IGNORED };
  Kind kind = Kind::PRESENT;
  std::string_view value;    ///< the default, if PRESENT
  std::string_view version;  ///< the first version with this state, as far as measured
};

/// libtpu's own flags.
std::span<const Flag> tpu_flags();
/// Flags of XLA's DebugOptions: common and of the GPU compiler. Every plugin parses them all.
std::span<const Flag> xla_flags();

/// The flag of this name, or nullptr.
const Flag* find_flag(std::string_view name);

/// The known name nearest to `name`; empty where none is near.
std::string nearest_flag(std::string_view name);

State flag_state(const Flag& flag, const Platform& platform);

/// "LIBTPU_INIT_ARGS", "XLA_FLAGS" or both.
std::string_view to_string(Variable variable);
std::string_view to_string(Type type);
std::string_view to_string(Backend backend);

}  // namespace kinema::flags
