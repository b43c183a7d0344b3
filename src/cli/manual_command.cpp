#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>

#include "cli/command_text.h"
#include "cli/commands.h"
#include "core/error.h"
#include "io/atomic_write.h"

namespace kinema::cli {
namespace {

namespace fs = std::filesystem;

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

/// `kinema flags check` as words.
const CommandText& find(const CommandText& root, const std::vector<std::string>& path) {
  const CommandText* at = &root;
  for (const std::string& name : path) {
    const auto next = std::ranges::find(at->commands, name, &CommandText::name);
    check(next != at->commands.end(), "there is no command `{}`\n  kinema --help lists them", name);
    at = &*next;
  }
  return *at;
}

int print_manual(const CLI::App& app, const std::vector<std::string>& path) {
  if (path.size() == 1 && path.front() == "keys") {
    fmt::print("{}", manual_of_keys());
    return 0;
  }
  std::string name = "kinema";
  for (const std::string& word : path) {
    name += " " + word;
  }
  fmt::print("{}", manual_page(find(describe(app), path), name));
  return 0;
}

/// FOLDER/man1/kinema.1, FOLDER/man1/kinema-train.1, ..., FOLDER/man5/kinema-config.5.
int write_manual(const CLI::App& app, const fs::path& folder) {
  const CommandText kinema = describe(app);
  fs::create_directories(folder / "man1");
  fs::create_directories(folder / "man5");
  io::write_file(folder / "man1" / "kinema.1", manual_page(kinema, "kinema"));
  for (const CommandText& command : kinema.commands) {
    io::write_file(folder / "man1" / fmt::format("kinema-{}.1", command.name),
                   manual_page(command, "kinema " + command.name));
  }
  io::write_file(folder / "man5" / "kinema-config.5", manual_of_keys());
  return 0;
}

int print_completion(const CLI::App& app, const std::string& shell) {
  fmt::print("{}",
             shell == "bash" ? bash_completion(describe(app)) : zsh_completion(describe(app)));
  return 0;
}

}  // namespace

CommandText describe(const CLI::App& app) {
  CommandText out{
      .name = app.get_name(), .help = app.get_description(), .footer = app.get_footer()};
  for (const CLI::Option* option : app.get_options()) {
    out.options.push_back(option_text(*option));
  }
  const auto is_listed = [](const CLI::App* command) { return !command->get_group().empty(); };
  for (const CLI::App* command : app.get_subcommands(is_listed)) {
    out.commands.push_back(describe(*command));
    if (out.commands.back().footer == out.footer) {  // CLI11 hands it down
      out.commands.back().footer.clear();
    }
  }
  return out;
}

void add_manual(CLI::App& app, Action& action) {
  CLI::App* manual = app.add_subcommand(
      "manual",
      "Print the man page of kinema, a command or the keys: kinema manual train | man -l -");
  const auto path = std::make_shared<std::vector<std::string>>();
  manual->add_option("COMMAND", *path, "a command; `keys` for the configuration's");
  const auto folder = std::make_shared<std::string>();
  manual->add_option("--to", *folder, "a folder to write all pages to, in man1 and man5");
  manual->callback([=, &app, &action] {
    action = [path, folder, &app] {
      return folder->empty() ? print_manual(app, *path) : write_manual(app, *folder);
    };
  });

  CLI::App* completion = app.add_subcommand(
      "completion", "Print the completion script of a shell: source <(kinema completion bash)");
  const auto shell = std::make_shared<std::string>();
  completion->add_option("SHELL", *shell, "bash or zsh")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh"}));
  completion->callback(
      [=, &app, &action] { action = [shell, &app] { return print_completion(app, *shell); }; });
}

}  // namespace kinema::cli
