#include "kinema/flags/flag.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <vector>

#include "kinema/core/edit_distance.h"
#include "kinema/core/trimmed.h"

namespace kinema::flags {
namespace {

/// Takes what stands before `mark` off the front of `text`.
std::string_view take(std::string_view& text, char mark) {
  const size_t end = std::min(text.find(mark), text.size());
  const std::string_view part = trimmed(text.substr(0, end));
  text.remove_prefix(std::min(end + 1, text.size()));
  return part;
}

State read_state(std::string_view value, std::string_view version) {
  using enum State::Kind;
  return {value == "absent"    ? ABSENT
          : value == "removed" ? REMOVED
          : value == "renamed" ? RENAMED
          : value == "ignored" ? IGNORED
                               : PRESENT,
          value, version};
}

/// The newest entry of `plugin` that is not newer than `version`, or its oldest.
std::optional<State> newest_entry(std::string_view defaults, std::string_view plugin,
                                  std::string_view version) {
  std::optional<State> found;
  while (!defaults.empty()) {
    std::string_view entry = take(defaults, ';');
    std::string_view place = take(entry, ':');
    if (take(place, ' ') != plugin) {
      continue;
    }
    if (!found || compare_versions(place, version) <= 0) {
      found = read_state(trimmed(entry), place);
    }
  }
  return found;
}

}  // namespace

const Flag* find_flag(std::string_view name) {
  for (const std::span<const Flag> table : {tpu_flags(), xla_flags()}) {
    const auto found = std::ranges::find(table, name, &Flag::name);
    if (found != table.end()) {
      return &*found;
    }
  }
  return nullptr;
}

std::string nearest_flag(std::string_view name) {
  std::string_view nearest;
  int least = std::numeric_limits<int>::max();
  for (const std::span<const Flag> table : {tpu_flags(), xla_flags()}) {
    for (const Flag& flag : table) {
      if (const int edits = edit_distance(name, flag.name); edits < least) {
        least = edits;
        nearest = flag.name;
      }
    }
  }
  return is_near(name, nearest) ? std::string(nearest) : "";
}

State flag_state(const Flag& flag, const Platform& platform) {
  const std::string_view version = platform.table_version();
  if (const auto own = newest_entry(flag.defaults, platform.plugin(), version)) {
    return *own;
  }
  if (const auto any = newest_entry(flag.defaults, "xla", version)) {
    return *any;
  }
  return {.kind = State::Kind::ABSENT};
}

std::string_view to_string(Variable variable) {
  switch (variable) {
    case Variable::LIBTPU_INIT_ARGS:
      return "LIBTPU_INIT_ARGS";
    case Variable::XLA_FLAGS:
      return "XLA_FLAGS";
    case Variable::BOTH:
      break;
  }
  return "LIBTPU_INIT_ARGS or XLA_FLAGS";
}

std::string_view to_string(Type type) {
  switch (type) {
    case Type::BOOL:
      return "true or false";
    case Type::TRISTATE:
      return "ENABLED, DISABLED or AUTO";
    case Type::INTEGER:
      return "integer";
    case Type::NUMBER:
      return "number";
    case Type::TEXT:
      return "text";
    case Type::WORD:
      return "word";
    case Type::WORDS:
      break;
  }
  return "list of words";
}

std::string_view to_string(Backend backend) {
  switch (backend) {
    case Backend::CPU:
      return "CPU";
    case Backend::GPU:
      return "GPU";
    case Backend::TPU:
      return "TPU";
    case Backend::ANY:
      break;
  }
  return "any";
}

}  // namespace kinema::flags
