#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <new>
#include <string>
#include <string_view>
#include <system_error>

#include "kinema/allocator/large_blocks.h"
#include "kinema/cli/commands.h"
#include "kinema/cli/examples.h"
#include "kinema/cli/processes.h"
#include "kinema/cli/waiting.h"
#include "kinema/core/address_space.h"
#include "kinema/core/errno_text.h"
#include "kinema/core/error.h"
#include "kinema/core/folders.h"
#include "kinema/jobs/process_setup.h"
#include "kinema/runtime/compilation_watch.h"

/// The git commit of the source, from cmake/commit.cmake; empty outside of a repository.
extern const char* const kKinemaCommit;  // NOLINT(readability-redundant-declaration)

namespace {

constexpr const char* kAbout =
    "Trains and samples diffusion models on XLA: Wan video, Flux.1, Z-Image, SDXL and SD 1.5 "
    "images. "
    "Trains agents: DreamerV3.";

int run(int argc, char** argv) {
  std::string version = KINEMA_VERSION;
  if (const std::string commit = kKinemaCommit; !commit.empty()) {
    version += " (commit " + commit + ")";
  }
  kinema::command::Program program("kinema", version, kAbout);
  kinema::cli::add_train(program);
  kinema::cli::add_generate(program);
  kinema::cli::add_agent(program);
  kinema::cli::add_prepare(program);
  kinema::cli::add_evaluate(program);
  kinema::cli::add_verify(program);
  kinema::cli::add_inspect(program);
  kinema::cli::add_config(program);
  kinema::cli::add_flags(program);
  kinema::cli::add_doctor(program);
  kinema::cli::add_plan(program);
  kinema::cli::add_convert(program);
  kinema::cli::add_watch(program);
  kinema::cli::add_compare(program);
  kinema::cli::add_serve(program);
  kinema::cli::add_engine(program);
  kinema::cli::add_look(program);
  kinema::cli::add_manual(program);
  program.footers(kinema::cli::examples);
  return program.run(argc, argv);
}

/// Supervisors may start a program with closed standard streams: the first file that it opens would
/// then become its standard output and receive its lines.
void open_standard_streams() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(descriptor, F_GETFD) < 0 && open("/dev/null", O_RDWR) < 0) {
      std::_Exit(1);
    }
  }
}

/// True if standard output is a pipe whose reader has closed it. A closed terminal gives the same
/// error, but must not end a job by a signal after it has saved its results.
bool is_unread() {
  struct stat about {};
  if (fstat(STDOUT_FILENO, &about) != 0 || S_ISCHR(about.st_mode)) {
    return false;
  }
  pollfd out{.fd = STDOUT_FILENO, .events = POLLOUT};
  return poll(&out, 1, 0) == 1 && (out.revents & (POLLERR | POLLHUP)) != 0;
}

/// A pipe's reader may stop early, such as `head`. Other programs then end by SIGPIPE; kinema does
/// so only after the job has ended cleanly.
int end_unread() {
  std::signal(SIGPIPE, SIG_DFL);
  std::raise(SIGPIPE);
  return 128 + SIGPIPE;  // if the signal is blocked: the exit status that shells use for it
}

/// True if --json was given.
bool asks_for_json(int argc, char** argv) {
  return std::any_of(argv, argv + argc,
                     [](const char* word) { return std::string_view(word) == "--json"; });
}

}  // namespace

// The only place that catches errors: each becomes a line on stderr, with --json also an object on
// stdout, and exit status 1.
int main(int argc, char** argv) {
  const auto fail = [&](const std::string& error) {
    return kinema::cli::fail_with(error, asks_for_json(argc, argv));
  };
  open_standard_streams();
  // The file size limit (`ulimit -f`) then becomes an error of the write, with the file's name.
  std::signal(SIGXFSZ, SIG_IGN);
  kinema::allocator::keep_large_blocks();
  kinema::jobs::ProcessSetup().apply();
  kinema::runtime::set_compilation_watch(kinema::cli::compiling);
  try {
    const int status = run(argc, argv);
    kinema::cli::show_last_notices();
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
      return is_unread() ? end_unread() : kinema::cli::fail_with("the output could not be written");
    }
    return status;
  } catch (const kinema::Error& error) {
    return fail(error.what());
  } catch (const std::filesystem::filesystem_error& error) {
    return fail(kinema::file_error_text(error));
  } catch (const std::system_error& error) {
    if (error.code() == std::errc::resource_unavailable_try_again) {
      return fail("this process can make no more threads\n  " + kinema::thread_remedy());
    }
    // Other system errors come from printing.
    if (error.code() == std::errc::broken_pipe) {
      return end_unread();
    }
    return kinema::cli::fail_with("the output could not be written: " +
                                  kinema::errno_text(error.code()));
  } catch (const std::bad_alloc&) {
    return fail("out of memory" + kinema::memory_remedy());
  } catch (const std::exception& error) {
    return fail(error.what());
  } catch (...) {
    return fail("an error without a message");
  }
}
