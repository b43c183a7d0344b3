#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kinema/flags/effective.h"
#include "kinema/flags/platform.h"

namespace kinema::flags {

/// A flag of a profile, and why it is set.
struct ProfileFlag {
  std::string_view name;
  std::string_view value;
  std::string_view why = "";
};

/// A flag of the profile's source list, and why the profile omits it.
struct DroppedFlag {
  std::string_view name;  ///< with the value from that list, `xla_gpu_graph_level=0`
  std::string_view why;
};

/// A set of flags for a kind of run.
struct Profile {
  std::string_view name;
  std::string_view target;  ///< the compile target, `v6e:2x2`, `h100`
  std::string_view about;   ///< one sentence
  std::vector<ProfileFlag> flags;
  std::vector<DroppedFlag> dropped;
};

std::span<const Profile> profiles();

/// The profile as text: each flag with its reason, then a list for other programs on its target.
std::string to_text(const Profile& profile, const Platform& platform);

/// The profile of this name. Throws an Error that lists all names.
const Profile& find_profile(std::string_view name);

/// The profile's flags, for `resolve`.
std::vector<GivenFlag> given_flags(const Profile& profile);
/// The flag of a word of the command line, `NAME=VALUE` with or without dashes. Throws an Error for
/// another word.
GivenFlag given_flag(std::string_view word);

}  // namespace kinema::flags
