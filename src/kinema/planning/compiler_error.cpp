#include "kinema/planning/compiler_error.h"

#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string_view>
#include <vector>

namespace kinema::planning {
namespace {

constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;

bool has(std::string_view text, std::string_view words) {
  return text.find(words) != std::string_view::npos;
}

/// The first amount such as `(96.50G)` after `at`, in bytes; 0 if there is none.
double amount(const std::string& text, size_t at) {
  const size_t open = at == std::string::npos ? at : text.find_first_of("0123456789", at);
  if (open == std::string::npos) {
    return 0;
  }
  char* end = nullptr;
  const double number = std::strtod(text.c_str() + open, &end);
  switch (*end) {
    case 'K':
      return number * 1024;
    case 'M':
      return number * 1024 * 1024;
    case 'G':
      return number * kGiB;
    case 'T':
      return number * kGiB * 1024;
    default:
      return number;
  }
}

/// A compiler's text in at most `most` characters, without web addresses and kinema's function
/// names.
std::string shortened(std::string text) {
  constexpr size_t kMost = 400;
  for (const char* const prefix : {"kinema: ", "[pjrt] ", "PJRT_Compile: ", "PJRT_Client_Compile: ",
                                   "PJRT_TopologyDescription_Create: "}) {
    if (text.starts_with(prefix)) {
      text.erase(0, std::strlen(prefix));
    }
  }
  for (const char* const tail : {" See https://", "\nSee https://", " (and "}) {
    if (const size_t at = text.find(tail); at != std::string::npos) {
      text.resize(at);
    }
  }
  if (text.size() > kMost) {
    text.resize(kMost);
    text += " ...";
  }
  for (char& c : text) {
    c = c == '\n' ? ' ' : c;
  }
  return text;
}

/// The most useful line of a log: an error or a failed check, else the last one.
std::string telling_line(const std::string& log) {
  std::istringstream in(log);
  std::string last;
  for (std::string line; std::getline(in, line);) {
    if (line.empty() || line.starts_with("    @") || line.starts_with("***")) {
      continue;
    }
    const bool fatal = line.starts_with("F") && line.size() > 5 && line[1] >= '0' && line[1] <= '9';
    if (has(line, "ERROR:") || has(line, "Check fail") || fatal) {
      const size_t source = line.find("] ");  // after time, thread and file
      return fatal && source != std::string::npos ? line.substr(source + 2) : line;
    }
    last = line;
  }
  return last;
}

std::string text_of(const std::string& name, const pjrt::FlagValue& value) {
  return fmt::format("{}={}", name,
                     std::visit([](const auto& v) { return fmt::format("{}", v); }, value));
}

/// The flag in a message, or all given flags, because an error may be about several.
std::string flags_at_fault(const pjrt::CompileOptions& options, const std::string& text) {
  std::string all;
  for (const auto& [name, value] : options.flags) {
    // In quotes, because one flag's name may be the start of another's.
    if (has(text, "'" + name + "'")) {
      return "\n  flag: " + text_of(name, value);
    }
    all += " " + text_of(name, value);
  }
  return all.empty() ? "" : "\n  flags given:" + all;
}

}  // namespace

void throw_failure(const Target& target, const pjrt::CompileOptions& options,
                   const ChildStatus& status, const std::string& error, const std::string& log) {
  check(!status.too_large,
        "[plan] the compiler took more of this machine's memory than it may and was ended\n"
        "  compile_memory_gib=N allows more; fewer devices or scan_layers=true take less");
  const std::string& said = error.empty() ? log : error;
  if (has(said, "libtpu_lockfile") || has(said, "already in use by")) {
    throw NotRequested(
        "[plan] another process holds libtpu's lock file /tmp/libtpu_lockfile\n"
        "  wait until it ends; when none is running, remove the file");
  }
  if (has(said, "No PTX compilation provider") || has(said, "libdevice not found")) {
    throw NotRequested(fmt::format(
        "[plan] the compiler of {} lacks a library: {}\n"
        "  kinema doctor --install cuda installs them; kinema doctor lists which are present",
        target.name, has(said, "libdevice") ? "libdevice.10.bc" : "nvJitLink or ptxas"));
  }
  if (has(said, "resource exhausted") || has(said, "RESOURCE_EXHAUSTED")) {
    const double wanted = amount(said, said.find('('));
    const double available = amount(said, said.find("exceeds available"));
    throw OutOfMemory(fmt::format("[plan] {} does not fit: {}", target.name, shortened(said)),
                      wanted, available);
  }
  if (!error.empty()) {
    fail("[plan] the compiler of {} refuses: {}{}", target.name, shortened(error),
         flags_at_fault(options, error));
  }
  constexpr int kNotStarted = 127;  // child_process.cpp
  if (status.exit_code == kNotStarted && said.empty()) {
    throw NotRequested(
        "[plan] the process for the compiler does not start: its program is not there or may not "
        "be run\n  kinema's own program does that; in a program of one's own JobOptions::program "
        "names it");
  }
  const std::string why = shortened(telling_line(log));
  const std::string how =
      status.signal != 0
          ? fmt::format("ended by signal {} ({})", status.signal, strsignal(status.signal))
          : fmt::format("ended with status {}", status.exit_code);
  if (has(why, "command line flag") || has(why, "Unknown flag")) {
    fail(
        "[plan] the compiler of {} refuses a flag of the environment: {}\n"
        "  look at LIBTPU_INIT_ARGS and XLA_FLAGS",
        target.name, why);
  }
  fail("[plan] the compiler of {} {}{}{}", target.name, how, why.empty() ? "" : ": ", why);
}

}  // namespace kinema::planning
