#pragma once

#include <string>
#include <vector>

namespace kinema::command {

/// An option or argument of a command, as --help describes it.
struct OptionText {
  std::vector<std::string> names;  // "--json"; of an argument nothing
  std::string value;               // "PATH", "CONFIG key=value"; of a flag nothing
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
