#pragma once

#include <span>
#include <string>
#include <vector>

#include "kinema/command/command.h"
#include "kinema/config/config.h"

namespace kinema::cli {

using command::Command;
using command::Program;

// Each adds its command to the program.
void add_train(Program& program);
void add_generate(Program& program);
void add_agent(Program& program);
void add_prepare(Program& program);
void add_evaluate(Program& program);
void add_verify(Program& program);
void add_inspect(Program& program);
void add_config(Program& program);
void add_flags(Program& program);
void add_doctor(Program& program);
void add_plan(Program& program);
void add_convert(Program& program);
void add_watch(Program& program);
void add_compare(Program& program);
void add_serve(Program& program);
/// The hidden command of the processes that `serve` starts.
void add_engine(Program& program);
void add_look(Program& program);
/// `manual` and `completion`, of all commands of the program.
void add_manual(Program& program);

/// The environment, as `NAME=VALUE`.
std::vector<std::string> variables();

/// CONFIG.yml and key=value arguments in any order; at most one file, which `need_file` makes
/// mandatory.
config::Loaded load_arguments(std::span<const std::string> words, bool need_file);

/// Prints a line for the user on stderr, which is not part of `--json` or piped output.
void warn(const std::string& line);

}  // namespace kinema::cli
