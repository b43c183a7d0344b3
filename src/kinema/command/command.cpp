#include "kinema/command/command.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <utility>

#include "kinema/core/edit_distance.h"
#include "kinema/core/error.h"

namespace kinema::command {
namespace {

OptionText option_text(const CLI::Option& option) {
  OptionText out{.help = option.get_description()};
  for (const std::string& name : option.get_snames()) {
    out.names.push_back("-" + name);
  }
  for (const std::string& name : option.get_lnames()) {
    out.names.push_back("--" + name);
  }
  if (option.get_items_expected_max() > 0) {
    out.value = out.names.empty() ? option.get_name(true) : "VALUE";
  }
  return out;
}

/// The first example in the command's footer, or in that of its first subcommand with one.
std::string example_of(const CLI::App& app) {
  const std::string footer = app.get_footer();
  const size_t begin = footer.find("\n  ");
  if (begin != std::string::npos) {
    const size_t end = footer.find('\n', begin + 1);
    return footer.substr(begin + 3, end == std::string::npos ? end : end - begin - 3);
  }
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (std::string example = example_of(*command); !example.empty()) {
      return example;
    }
  }
  return "";
}

/// Names what is missing, with an example command line: for plain `kinema`, plain `kinema train`.
[[noreturn]] void fail_with_usage(const CLI::App& app, const std::string& name) {
  std::string words;
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_required()) {
      // An option's help lists its words.
      words += option->get_positional()
                   ? " " + option->get_name(true)
                   : fmt::format(" {} ({})", option->get_name(), option->get_description());
    }
  }
  if (!app.get_subcommands([](const CLI::App*) { return true; }).empty()) {
    words = " COMMAND";
  }
  const std::string example = example_of(app);
  fail("[command] usage: {}{}{}\n  {} --help lists the options", name, words,
       example.empty() ? "" : "\n  for example: " + example, name);
}

/// The innermost command that was given, and its name with those of the commands around it.
std::pair<const CLI::App*, std::string> chosen_command(const CLI::App& program) {
  const CLI::App* at = &program;
  std::string name = program.get_name();
  while (!at->get_subcommands().empty()) {
    at = at->get_subcommands().front();
    name += " " + at->get_name();
  }
  return {at, name};
}

/// The listed command that may have been meant.
std::string suggestion(const CLI::App& app, const std::string& word) {
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (!command->get_group().empty() && is_near(word, command->get_name())) {
      return fmt::format("; did you mean `{}`?", command->get_name());
    }
  }
  return "";
}

CommandText command_text(const CLI::App& app) {
  CommandText out{
      .name = app.get_name(), .help = app.get_description(), .footer = app.get_footer()};
  for (const CLI::Option* option : app.get_options()) {
    out.options.push_back(option_text(*option));
  }
  const auto is_listed = [](const CLI::App* command) { return !command->get_group().empty(); };
  for (const CLI::App* command : app.get_subcommands(is_listed)) {
    out.commands.push_back(command_text(*command));
    if (out.commands.back().footer == out.footer) {  // CLI11 inherits it
      out.commands.back().footer.clear();
    }
  }
  return out;
}

}  // namespace

Option& Option::required() {
  option_->required();
  return *this;
}

Option& Option::one_value() {
  option_->expected(1);
  return *this;
}

Option& Option::one_of(std::vector<std::string> words) {
  option_->check(CLI::IsMember(std::move(words)));
  return *this;
}

Option& Option::between(double least, double most) {
  const auto problem = [least, most](const std::string& text) {
    double value = 0;
    const bool is_number = CLI::detail::lexical_cast(text, value);
    // CLI::Range accepts nan, which is neither below the minimum nor above the maximum.
    return is_number && value >= least && value <= most
               ? std::string()
               : fmt::format("{} is given, a number from {} to {} is expected", text, least, most);
  };
  option_->check(CLI::Validator(problem, fmt::format("from {} to {}", least, most)));
  return *this;
}

Option& Option::shows_default() {
  option_->capture_default_str();
  return *this;
}

Command Command::add(const std::string& name, const std::string& about) {
  return {*app_->add_subcommand(name, about), *action_};
}

void Command::flag(const std::string& name, bool& value, const std::string& about) {
  app_->add_flag(name, value, about);
}

Option Command::option(const std::string& name, std::string& value, const std::string& about) {
  return Option(*app_->add_option(name, value, about));
}

Option Command::option(const std::string& name, int64_t& value, const std::string& about) {
  return Option(*app_->add_option(name, value, about));
}

Option Command::option(const std::string& name, double& value, const std::string& about) {
  return Option(*app_->add_option(name, value, about));
}

Option Command::option(const std::string& name, std::vector<std::string>& values,
                       const std::string& about) {
  return Option(*app_->add_option(name, values, about));
}

Option Command::option(const std::string& name, std::vector<int64_t>& values,
                       const std::string& about) {
  return Option(*app_->add_option(name, values, about));
}

void Command::extra_arguments(std::vector<std::string>& words) {
  app_->allow_extras();
  app_->parse_complete_callback([app = app_, &words] { words = app->remaining(); });
}

void Command::footer(const std::string& text) { app_->footer(text); }

void Command::hide() { app_->group(""); }

void Command::run(Action action) {
  // CLI11 calls the callbacks of subcommands first.
  app_->callback([chosen = action_, action = std::move(action)] {
    if (!*chosen) {
      *chosen = action;
    }
  });
}

Program::Program(const std::string& name, const std::string& version, const std::string& about)
    : app_(std::make_unique<CLI::App>(about, name)) {
  app_->require_subcommand(1);
  if (!version.empty()) {
    app_->set_version_flag("--version", name + " " + version, "Print the version and exit");
  }
  app_->set_help_flag("--help,-h", "Print this help and exit");
  app_->footer(name + " COMMAND --help prints the options of a command.");
}

Program::~Program() = default;

Command Program::add(const std::string& name, const std::string& about) {
  return {*app_->add_subcommand(name, about), action_};
}

Command Program::itself() {
  app_->require_subcommand(0);
  app_->footer("");
  return {*app_, action_};
}

CommandText Program::text() const { return command_text(*app_); }

void Program::footers(const std::function<std::string(const std::string&)>& of) {
  for (CLI::App* command : app_->get_subcommands({})) {
    command->footer(of(command->get_name()));
  }
}

int Program::run(int argc, char** argv) {
  // For an unknown command CLI11 only says that a command is required.
  const auto is_named = [&](const CLI::App* command) { return command->get_name() == argv[1]; };
  if (argc > 1 && argv[1][0] != '-' && !app_->get_subcommands({}).empty() &&
      app_->get_subcommands(is_named).empty()) {
    fail("[command] there is no command `{}`{}\n  {} --help lists the commands", argv[1],
         suggestion(*app_, argv[1]), app_->get_name());
  }
  try {
    app_->parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success)) {
      return app_->exit(error);  // --help and --version
    }
    const auto [at, name] = chosen_command(*app_);
    if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr) {
      fail_with_usage(*at, name);
    }
    const bool is_unknown = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr;
    const std::vector<std::string> rest = at->remaining();
    fail("[command] {}{}\n  {} --help lists the options{}", error.what(),
         is_unknown && !rest.empty() ? suggestion(*at, rest.front()) : "", name,
         is_unknown ? "; keys are given as key=value, without dashes" : "");
  }
  if (!action_) {  // a command that only has subcommands, alone
    const auto [at, name] = chosen_command(*app_);
    fail_with_usage(*at, name);
  }
  return action_();
}

}  // namespace kinema::command
