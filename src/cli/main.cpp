#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>

#include "allocator/large_blocks.h"
#include "cli/commands.h"
#include "cli/examples.h"
#include "cli/waiting.h"
#include "core/error.h"
#include "runtime/compilation_watch.h"

namespace {

constexpr const char* kAbout = "Trains and samples Wan video models on XLA.";

int run(int argc, char** argv) {
  CLI::App app(kAbout, "kinema");
  app.require_subcommand(1);
  app.set_version_flag("--version", "kinema " KINEMA_VERSION, "Print the version and exit");
  app.set_help_flag("--help,-h", "Print this help and exit");
  app.footer("kinema COMMAND --help says more.");

  kinema::cli::Action action;
  kinema::cli::add_train(app, action);
  kinema::cli::add_generate(app, action);
  kinema::cli::add_prepare(app, action);
  kinema::cli::add_verify(app, action);
  kinema::cli::add_inspect(app, action);
  kinema::cli::add_config(app, action);
  kinema::cli::add_flags(app, action);
  kinema::cli::add_doctor(app, action);
  kinema::cli::add_plan(app, action);
  kinema::cli::add_convert(app, action);
  kinema::cli::add_watch(app, action);
  kinema::cli::add_manual(app, action);
  for (CLI::App* command : app.get_subcommands({})) {
    command->footer(kinema::cli::examples(command->get_name()));
  }
  // CLI11 only says that a command is required when it gets one that it does not know.
  const auto is_named = [&](const CLI::App* command) { return command->get_name() == argv[1]; };
  if (argc > 1 && argv[1][0] != '-' && app.get_subcommands(is_named).empty()) {
    kinema::fail("there is no command `{}`\n  kinema --help lists the commands", argv[1]);
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success)) {
      return app.exit(error);  // --help and --version
    }
    fmt::print(stderr, "kinema: {}\n  kinema --help lists the commands\n", error.what());
    return 1;
  }
  return action();
}

}  // namespace

// The one place that catches: whatever goes wrong becomes a line on stderr and exit status 1.
int main(int argc, char** argv) {
  kinema::allocator::keep_large_blocks();
  // Writing to a closed pipe is an error of that write, not the end of a run.
  std::signal(SIGPIPE, SIG_IGN);
  // XLA's own lines on stderr, which plugins look up when they are loaded: 3 leaves those before an
  // abort; its errors come back to us and are printed as ours. A user's own setting wins.
  setenv("TF_CPP_MIN_LOG_LEVEL", "3", /*overwrite=*/0);
  kinema::runtime::set_compilation_watch(kinema::cli::compiling);
  try {
    const int status = run(argc, argv);
    if (std::fflush(stdout) != 0) {
      std::fputs("kinema: the output could not be written\n", stderr);
      return 1;
    }
    return status;
  } catch (const kinema::Error& error) {
    std::fprintf(stderr, "kinema: %s\n", error.what());
  } catch (const std::bad_alloc&) {
    std::fputs("kinema: out of memory\n", stderr);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "kinema: %s\n", error.what());
  } catch (...) {
    std::fputs("kinema: an error without a message\n", stderr);
  }
  return 1;
}
