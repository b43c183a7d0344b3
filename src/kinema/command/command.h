#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kinema/command/command_text.h"

// The parser's header takes seconds to compile: only command.cpp includes it.
namespace CLI {  // NOLINT(readability-identifier-naming): the name is CLI11's
class App;
class Option;
}  // namespace CLI

namespace kinema::command {

/// An option of a command; each call below restricts it further and returns it.
class Option {
 public:
  explicit Option(CLI::Option& option) : option_(&option) {}
  /// The command fails without it.
  Option& required();
  /// It takes one value at a time, so that the next word is not taken as a second value.
  Option& one_value();
  Option& one_of(std::vector<std::string> words);
  Option& between(double least, double most);
  /// --help shows its default.
  Option& shows_default();

 private:
  CLI::Option* option_;
};

/// A command and its options. Values that options write to must live as long as the program: let
/// the action share ownership of them.
class Command {
 public:
  using Action = std::function<int()>;

  /// Adds a subcommand.
  Command add(const std::string& name, const std::string& about);

  /// `--json`: sets `value` to true when given.
  void flag(const std::string& name, bool& value, const std::string& about);
  /// `--to VALUE`, or a positional argument if the name has no dashes (`PATH`). Lists take any
  /// number of values.
  Option option(const std::string& name, std::string& value, const std::string& about = "");
  Option option(const std::string& name, int64_t& value, const std::string& about = "");
  Option option(const std::string& name, double& value, const std::string& about = "");
  Option option(const std::string& name, std::vector<std::string>& values,
                const std::string& about);
  Option option(const std::string& name, std::vector<int64_t>& values, const std::string& about);
  /// Collects the words that are not options, also those that begin with dashes.
  void extra_arguments(std::vector<std::string>& words);

  /// Lines after the options in --help.
  void footer(const std::string& text);
  /// Hides it from --help.
  void hide();
  /// Sets the action, which returns the process's exit status. With a subcommand only the
  /// subcommand's action runs.
  void run(Action action);

 private:
  friend class Program;
  Command(CLI::App& app, Action& action) : app_(&app), action_(&action) {}

  CLI::App* app_;
  Action* action_;
};

/// The program with all its commands.
class Program {
 public:
  /// An empty version: no --version.
  Program(const std::string& name, const std::string& version, const std::string& about);
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  Command add(const std::string& name, const std::string& about);
  /// For a program without commands: its own options.
  Command itself();

  /// What --help says about the listed commands and their subcommands.
  CommandText text() const;
  /// Sets the footer of each command by its name.
  void footers(const std::function<std::string(const std::string&)>& of);

  /// Parses the words and runs the action. Returns the exit status; --help and --version
  /// are printed. Throws an Error for words that it does not know or that are missing, and what the
  /// action throws.
  int run(int argc, char** argv);

 private:
  std::unique_ptr<CLI::App> app_;
  Command::Action action_;
};

}  // namespace kinema::command
