#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kinema/flags/effective.h"
#include "kinema/flags/platform.h"

namespace kinema::flags {

/// A flag of a profile, and why it is there.
struct ProfileFlag {
  std::string_view name;
  std::string_view value;
  std::string_view why = "";
};

/// A flag of the list that a profile is made after, and why it is not in it.
struct DroppedFlag {
  std::string_view name;  ///< with the list's value, `xla_gpu_graph_level=0`
  std::string_view why;
};

/// A set of flags for a kind of run.
struct Profile {
  std::string_view name;
  std::string_view target;  ///< what it is compiled for, `v6e:2x2`, `h100`
  std::string_view about;   ///< one sentence
  std::vector<ProfileFlag> flags;
  std::vector<DroppedFlag> dropped;
};

std::span<const Profile> profiles();

/// The profile with the reasons of its flags, for people, and as a list for other programs on its
/// target.
std::string to_text(const Profile& profile, const Platform& platform);

/// The profile of this name. Throws an Error that names all there are.
const Profile& find_profile(std::string_view name);

/// The profile's flags as they are handed to `resolve`.
std::vector<GivenFlag> given_flags(const Profile& profile);

}  // namespace kinema::flags
