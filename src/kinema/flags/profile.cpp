#include "kinema/flags/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/flags/flag.h"

namespace kinema::flags {

std::string to_text(const Profile& profile, const Platform& platform) {
  std::string out = fmt::format("{}: {}\n\n", profile.name, profile.about);
  const auto add = [&]<typename... Args>(fmt::format_string<Args...> text, Args&&... args) {
    fmt::format_to(std::back_inserter(out), text, std::forward<Args>(args)...);
  };
  std::string list;
  for (const ProfileFlag& flag : profile.flags) {
    add("  {:<68} {}\n", fmt::format("{}={}", flag.name, flag.value), flag.why);
    list += fmt::format("{}--{}={}", list.empty() ? "" : " ", flag.name, flag.value);
  }
  out += profile.dropped.empty() ? "" : "\nleft out:\n";
  for (const DroppedFlag& flag : profile.dropped) {
    add("  {:<68} {}\n", flag.name, flag.why);
  }
  const bool tpu = platform.backend == Backend::TPU;
  add("\nfor other programs: {}\n", tpu ? "LIBTPU_INIT_ARGS" : "XLA_FLAGS");
  for (const ProfileFlag& flag : profile.flags) {
    if (tpu && find_flag(flag.name)->variable == Variable::XLA_FLAGS) {
      add("  ({} goes into XLA_FLAGS)\n", flag.name);
    }
  }
  add("  {}\n", list);
  return out;
}

const Profile& find_profile(std::string_view name) {
  const std::span<const Profile> all = profiles();
  const auto found = std::ranges::find(all, name, &Profile::name);
  if (found == all.end()) {
    std::vector<std::string_view> names;
    for (const Profile& profile : all) {
      names.push_back(profile.name);
    }
    fail("[flags] there is no profile `{}`\n  there are {}", name, fmt::join(names, ", "));
  }
  return *found;
}

std::vector<GivenFlag> given_flags(const Profile& profile) {
  std::vector<GivenFlag> out;
  for (const ProfileFlag& flag : profile.flags) {
    out.push_back({.name = std::string(flag.name),
                   .value = std::string(flag.value),
                   .origin = fmt::format("profile {}", profile.name)});
  }
  return out;
}

GivenFlag given_flag(std::string_view word) {
  const size_t dashes = std::min(word.find_first_not_of('-'), word.size());
  const size_t equals = word.find('=');
  check(equals != std::string_view::npos && equals > dashes,
        "[flags] `{}` is not NAME=VALUE, e.g. xla_tpu_scoped_vmem_limit_kib=65536", word);
  return {.name = std::string(word.substr(dashes, equals - dashes)),
          .value = std::string(word.substr(equals + 1)),
          .origin = "command line"};
}

}  // namespace kinema::flags
