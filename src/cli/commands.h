#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "config/config.h"

namespace CLI {  // NOLINT(readability-identifier-naming): the name is CLI11's
class App;
}

namespace kinema::cli {

/// What the chosen sub-command does; returns the process's exit status.
using Action = std::function<int()>;

// Each adds its sub-command to `app`; when it is the chosen one, `action` is set.
void add_train(CLI::App& app, Action& action);
void add_generate(CLI::App& app, Action& action);
void add_prepare(CLI::App& app, Action& action);
void add_verify(CLI::App& app, Action& action);
void add_inspect(CLI::App& app, Action& action);
void add_config(CLI::App& app, Action& action);
void add_flags(CLI::App& app, Action& action);
void add_doctor(CLI::App& app, Action& action);
void add_plan(CLI::App& app, Action& action);
void add_convert(CLI::App& app, Action& action);
void add_watch(CLI::App& app, Action& action);
/// `manual` and `completion`, of all commands of `app`.
void add_manual(CLI::App& app, Action& action);

/// CONFIG.yml and key=value words in any order; at most one file, and `need_file` asks for it.
config::Loaded load_arguments(std::span<const std::string> words, bool need_file);

/// A line for people on stderr, which `--json` and pipes do not see.
void warn(const std::string& line);

}  // namespace kinema::cli
