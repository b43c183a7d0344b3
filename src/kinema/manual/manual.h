#pragma once

#include <string>
#include <vector>

#include "kinema/command/command_text.h"

/// Documents generated from the commands: man pages and shell completion.
namespace kinema::manual {

/// A man page in roff, section 1; `path` is "kinema" or "kinema train".
std::string manual_page(const command::CommandText& text, const std::string& path);

/// kinema-config(5): every key of the configuration.
std::string keys_manual_page();

/// Completion of commands, options, keys with their values, and files.
std::string bash_completion(const command::CommandText& kinema);
std::string zsh_completion(const command::CommandText& kinema);

/// True when the command takes keys of the configuration.
bool takes_keys(const command::CommandText& text);
/// Words that its help names like `target=`, besides the configuration's keys.
std::vector<std::string> argument_names(const command::CommandText& text);

}  // namespace kinema::manual
