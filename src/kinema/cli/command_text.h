#pragma once

#include <string>
#include <vector>

namespace kinema::cli {

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

  /// True when it takes keys of the configuration.
  bool takes_keys() const;
  /// Words that its help names like `target=`, beside the configuration's keys.
  std::vector<std::string> named_words() const;
};

/// A man page in roff, of section 1: `path` is "kinema" or "kinema train".
std::string manual_page(const CommandText& command, const std::string& path);

/// kinema-config(5): every key of the configuration.
std::string manual_of_keys();

/// Completion of commands, options, keys with their values, and files.
std::string bash_completion(const CommandText& kinema);
std::string zsh_completion(const CommandText& kinema);

}  // namespace kinema::cli
