#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "kinema/flags/platform.h"

namespace kinema::flags {

/// The environment variable that takes a flag.
enum class Variable : uint8_t { LIBTPU_INIT_ARGS, XLA_FLAGS, BOTH };

/// What values a flag has. A TRISTATE is ENABLED, DISABLED or AUTO; WORD is one of some words,
/// WORDS a list of them with commas.
enum class Type : uint8_t { BOOL, TRISTATE, INTEGER, NUMBER, TEXT, WORD, WORDS };

/// What is known of a compiler flag.
struct Flag {
  std::string_view name;
  Backend backend = Backend::ANY;
  Variable variable = Variable::XLA_FLAGS;
  Type type = Type::BOOL;
  /// By plugin and version on, oldest first: "libtpu 0.0.30: AUTO; libtpu 0.0.42.1: ENABLED". `xla`
  /// stands for every plugin without an entry of its own. A default, or `unset` (the compiler
  /// decides by target), `absent` (not known yet), `removed` (no longer known), `renamed` (its
  /// variable still maps it to the replacement, a program's options do not have it), `ignored` (its
  /// variable takes it without effect).
  std::string_view defaults;
  std::string_view meaning;
  std::string_view hazard = "";
  std::string_view source;
  std::string_view words = "";        ///< WORD, WORDS: those allowed, "a | b"; empty: any
  std::string_view replacement = "";  ///< what to set instead, where it is removed or renamed
  std::string_view wire = "";  ///< WORD: what a program's option has before the word, in capitals
  bool any_case = false;       ///< WORD: XLA_FLAGS takes it in capitals too
  bool per_program = true;     ///< false: the variable takes it, a program's options do not
};

/// What a plugin makes of a flag.
struct State {
  enum class Kind : uint8_t { PRESENT, ABSENT, REMOVED, RENAMED, IGNORED };
  Kind kind = Kind::PRESENT;
  std::string_view value;    ///< the default, where it is present
  std::string_view version;  ///< since when, as far as measured
};

/// libtpu's own flags.
std::span<const Flag> tpu_flags();
/// Flags of XLA's DebugOptions: common and of the GPU compiler. Every plugin parses them all.
std::span<const Flag> xla_flags();

/// The flag of this name, or nullptr.
const Flag* find_flag(std::string_view name);

/// The known name nearest to `name`; empty where none is near.
std::string nearest_flag(std::string_view name);

State state_of(const Flag& flag, const Platform& platform);

/// "LIBTPU_INIT_ARGS", "XLA_FLAGS" or both.
std::string_view to_string(Variable variable);
std::string_view to_string(Type type);
std::string_view to_string(Backend backend);

}  // namespace kinema::flags
