#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kinema/command/command_text.h"

// The parser's header takes a compiler seconds: command.cpp alone includes it.
namespace CLI {  // NOLINT(readability-identifier-naming): the name is CLI11's
class App;
class Option;
}  // namespace CLI

namespace kinema::command {

/// An option of a command, which may be asked more of.
class Option {
 public:
  explicit Option(CLI::Option& option) : option_(&option) {}
  /// The command is refused without it.
  Option& required();
  /// It takes one value at a time, so that a word after it is not taken for a second one.
  Option& one_value();
  Option& one_of(std::vector<std::string> words);
  Option& between(double least, double most);
  /// --help says what it is when it is not given.
  Option& shows_default();

 private:
  CLI::Option* option_;
};

/// A command and what it takes. Values that options write to must live as long as the program: give
/// the action a share of them.
class Command {
 public:
  using Action = std::function<int()>;

  /// A command below this one.
  Command add(const std::string& name, const std::string& about);

  /// `--json`: true when it is given.
  void flag(const std::string& name, bool& value, const std::string& about);
  /// `--to VALUE`, or the word at a place where the name has no dashes (`PATH`). Lists take as many
  /// as there are.
  Option option(const std::string& name, std::string& value, const std::string& about = "");
  Option option(const std::string& name, int64_t& value, const std::string& about = "");
  Option option(const std::string& name, double& value, const std::string& about = "");
  Option option(const std::string& name, std::vector<std::string>& values,
                const std::string& about);
  Option option(const std::string& name, std::vector<int64_t>& values, const std::string& about);
  /// Words that are none of the options, those that begin with dashes too.
  void other_words(std::vector<std::string>& words);

  /// Lines below the options in --help.
  void footer(const std::string& text);
  /// --help does not list it.
  void hide();
  /// What it does; returns the process's exit status. Of a command and one below it the lower acts.
  void run(Action action);

 private:
  friend class Program;
  Command(CLI::App& app, Action& action) : app_(&app), action_(&action) {}

  CLI::App* app_;
  Action* action_;
};

/// The program of all commands.
class Program {
 public:
  /// Without a version it has no --version.
  Program(const std::string& name, const std::string& version, const std::string& about);
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  Command add(const std::string& name, const std::string& about);
  /// Of a program that has no commands: what it takes itself.
  Command itself();

  /// What --help says of the commands that it lists, and of those below them.
  CommandText text() const;
  /// The footers of the commands, by name.
  void footers(const std::function<std::string(const std::string&)>& of);

  /// Reads the words and acts on them. Returns the exit status; what is wrong with the words,
  /// --help and --version are printed. Throws an Error for a command that there is not, and what
  /// the action throws.
  int run(int argc, char** argv);

 private:
  std::unique_ptr<CLI::App> app_;
  Command::Action action_;
};

}  // namespace kinema::command
