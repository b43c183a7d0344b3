#include "kinema/flags/profile.h"

#include <fmt/format.h>

#include <algorithm>

#include "kinema/core/error.h"

namespace kinema::flags {

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

}  // namespace kinema::flags
