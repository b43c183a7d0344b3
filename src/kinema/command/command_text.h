#pragma once

#include <string>
#include <vector>

namespace kinema::command {

/// An option or argument of a command, as --help describes it.
struct OptionText {
  std::vector<std::string> names;  // "--json"; empty for an argument
  std::string value;               // "PATH", "CONFIG key=value"; empty for a flag
  std::string help;
};

/// A command as --help describes it.
struct CommandText {
  std::string name;  // "kinema", "train", "check"
  std::string help;
  std::string footer;
  std::vector<OptionText> options;
  std::vector<CommandText> commands;
};

}  // namespace kinema::command
