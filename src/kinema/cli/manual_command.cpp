#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "kinema/cli/commands.h"
#include "kinema/core/edit_distance.h"
#include "kinema/core/error.h"
#include "kinema/io/atomic_write.h"
#include "kinema/manual/manual.h"

namespace kinema::cli {
namespace {

namespace fs = std::filesystem;

/// The command at `path`: `flags check`. Throws an Error that suggests a similar name.
const command::CommandText& find(const command::CommandText& root,
                                 const std::vector<std::string>& path) {
  const command::CommandText* at = &root;
  for (const std::string& name : path) {
    const auto next = std::ranges::find(at->commands, name, &command::CommandText::name);
    const auto near = std::ranges::find_if(
        at->commands, [&](const auto& each) { return is_near(name, each.name); });
    check(next != at->commands.end(),
          "there is no command `{}`{}\n"
          "  kinema --help lists all",
          name, near == at->commands.end() ? "" : fmt::format("; did you mean `{}`?", near->name));
    at = &*next;
  }
  return *at;
}

int print_manual(const command::CommandText& kinema, const std::vector<std::string>& path) {
  if (path.size() == 1 && path.front() == "keys") {
    fmt::print("{}", manual::keys_manual_page());
    return 0;
  }
  std::string name = "kinema";
  for (const std::string& word : path) {
    name += " " + word;
  }
  fmt::print("{}", manual::manual_page(find(kinema, path), name));
  return 0;
}

/// Writes FOLDER/man1/kinema.1, FOLDER/man1/kinema-train.1, ..., FOLDER/man5/kinema-config.5.
int write_manual(const command::CommandText& kinema, const fs::path& folder) {
  fs::create_directories(folder / "man1");
  fs::create_directories(folder / "man5");
  io::write_file(folder / "man1" / "kinema.1", manual::manual_page(kinema, "kinema"));
  for (const command::CommandText& command : kinema.commands) {
    io::write_file(folder / "man1" / fmt::format("kinema-{}.1", command.name),
                   manual::manual_page(command, "kinema " + command.name));
  }
  io::write_file(folder / "man5" / "kinema-config.5", manual::keys_manual_page());
  return 0;
}

int print_completion(const command::CommandText& kinema, const std::string& shell) {
  fmt::print("{}",
             shell == "bash" ? manual::bash_completion(kinema) : manual::zsh_completion(kinema));
  return 0;
}

}  // namespace

void add_manual(Program& program) {
  Command manual = program.add(
      "manual",
      "Print the man page of kinema, a command or the keys: kinema manual train | man -l -");
  const auto path = std::make_shared<std::vector<std::string>>();
  manual.option("COMMAND", *path, "a command, or `keys` for the configuration");
  const auto folder = std::make_shared<std::string>();
  manual.option("--to", *folder, "a folder to write all pages to, in man1 and man5");
  manual.run([path, folder, &program] {
    return folder->empty() ? print_manual(program.text(), *path)
                           : write_manual(program.text(), *folder);
  });

  Command completion = program.add(
      "completion", "Print the completion script of a shell: source <(kinema completion bash)");
  const auto shell = std::make_shared<std::string>();
  completion.option("SHELL", *shell, "bash or zsh").required().one_of({"bash", "zsh"});
  completion.run([shell, &program] { return print_completion(program.text(), *shell); });
}

}  // namespace kinema::cli
