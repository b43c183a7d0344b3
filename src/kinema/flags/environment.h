#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kinema/flags/finding.h"
#include "kinema/flags/flag.h"

namespace kinema::flags {

/// A flag from an environment variable.
struct EnvironmentFlag {
  std::string name;   ///< without dashes
  std::string value;  ///< "true" if none is given
  std::string word;   ///< as written
};

/// A variable's text, parsed.
struct EnvironmentFlags {
  Variable variable = Variable::XLA_FLAGS;
  std::vector<EnvironmentFlag> flags;  ///< in order
  std::vector<std::string> words;      ///< every word of the text, in order
  std::vector<std::string> tolerated;  ///< names listed by `--undefok`
  std::vector<Finding> findings;       ///< words that are not read as flags
};

/// Parses the text as libtpu does: words between spaces; one or two dashes; `--flag`, `--noflag`,
/// `--flag=value`, `--flag value`. libtpu silently ignores anything else; here it becomes a
/// finding.
EnvironmentFlags read_libtpu_init_args(std::string_view text);

/// Parses the text as XLA does: `--flag` and `--flag=value` with quotes around a value; a text that
/// does not begin with two dashes is the name of a file with flags.
EnvironmentFlags read_xla_flags(std::string_view text);

}  // namespace kinema::flags
