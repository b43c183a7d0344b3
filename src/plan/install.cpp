#include "plan/install.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <vector>

#include "core/error.h"
#include "io/atomic_write.h"
#include "plan/child_process.h"
#include "remote/digest.h"

namespace kinema::plan {
namespace {

namespace fs = std::filesystem;

const std::array<PluginWheel, 2>& table() {
  static const std::array<PluginWheel, 2> all{{
      {.hardware = "tpu",
       .package = "libtpu",
       .version = "0.0.51",
       .sha256 = "ba67ddbfdbac61c8da1fafc26cd51b93e9fe4d298016e2882eb986b1718cba34",
       .platform = "manylinux_2_31_x86_64",
       .folder = "libtpu/"},
      {.hardware = "cuda",
       .package = "jax-cuda13-pjrt",
       .version = "0.12.0.1",
       .sha256 = "5899bb6177eda86ea532afb9a26794f2bdd04966f6a01f9028266b16c2b6cf90",
       .platform = "manylinux_2_27_x86_64",
       .folder = "jax_plugins/xla_cuda13/"},
  }};
  return all;
}

/// Another ./dev or doctor may fetch into the same cache: each works in a folder of its own.
class WorkFolder {
 public:
  explicit WorkFolder(const fs::path& cache) {
    std::error_code error;
    fs::create_directories(cache, error);
    std::string pattern = (cache / "install.XXXXXX").string();
    check(!error && mkdtemp(pattern.data()) != nullptr,
          "[plan] cannot write to {}\n  set KINEMA_CACHE to a folder that you may write to",
          cache.string());
    path_ = pattern;
  }
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;
  ~WorkFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

std::string read_text(const fs::path& path) {
  std::ifstream in(path);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

/// pip's own line of what went wrong.
std::string reason(const std::string& log) {
  std::istringstream in(log);
  std::string last = "no output";
  for (std::string line; std::getline(in, line);) {
    const size_t at = line.find("ERROR:");
    if (at != std::string::npos) {
      return line.substr(at);
    }
    last = line.empty() ? last : line;
  }
  return last;
}

fs::path python() {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "/usr/bin:/bin" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    std::error_code error;
    const fs::path file = fs::path(folder) / "python3";
    if (fs::is_regular_file(file, error)) {
      return file;
    }
  }
  fail(
      "[plan] plugins are fetched with python3 and pip, and there is no python3\n"
      "  install python3-pip, or unpack the wheel elsewhere and set pjrt_plugin=PATH");
}

void run_python(const std::vector<std::string>& words, const fs::path& log,
                const std::string& doing) {
  const ChildStatus status = run_child({.executable = python(), .arguments = words, .log = log});
  check(status.exit_code == 0,
        "[plan] {} failed: {}\n  check the network and pip's index: python3 -m pip config list",
        doing, reason(read_text(log)));
}

fs::path fetch(const PluginWheel& wheel, const fs::path& work) {
  const fs::path pins = work / "pins";
  io::write_file(
      pins, fmt::format("{}=={} --hash=sha256:{}\n", wheel.package, wheel.version, wheel.sha256));
  run_python({"-m",
              "pip",
              "download",
              "--no-input",
              "--quiet",
              "--no-deps",
              "--require-hashes",
              "--no-cache-dir",
              "--disable-pip-version-check",
              "--only-binary=:all:",
              "--platform",
              wheel.platform,
              "--python-version",
              "3.11",
              "--implementation",
              "cp",
              "--abi",
              "cp311",
              "--dest",
              work.string(),
              "--requirement",
              pins.string()},
             work / "log", fmt::format("fetching {} {}", wheel.package, wheel.version));
  for (const fs::directory_entry& entry : fs::directory_iterator(work)) {
    if (entry.path().extension() == ".whl") {
      return entry.path();
    }
  }
  fail("[plan] pip fetched no wheel of {} {}", wheel.package, wheel.version);
}

void check_digest(const PluginWheel& wheel, const fs::path& file) {
  remote::Digest digest(remote::Digest::Kind::SHA256);
  std::ifstream in(file, std::ios::binary);
  std::vector<char> block(size_t{1} << 20);
  while (in.read(block.data(), static_cast<std::streamsize>(block.size())) || in.gcount() > 0) {
    digest.update(std::string_view(block.data(), static_cast<size_t>(in.gcount())));
  }
  const std::string found = digest.hex();
  check(found == wheel.sha256, "[plan] {} {} has sha256 {}, expected {}", wheel.package,
        wheel.version, found, wheel.sha256);
}

}  // namespace

std::span<const PluginWheel> plugin_wheels() { return table(); }

fs::path install_plugin(const std::string& hardware, const fs::path& cache) {
  const auto* const wheel = std::ranges::find(table(), hardware, &PluginWheel::hardware);
  check(wheel != table().end(), "[plan] there is no plugin to install for `{}`\n  give tpu or cuda",
        hardware);
  const fs::path folder = cache / fmt::format("{}-{}", wheel->package, wheel->version);
  if (fs::exists(folder)) {
    return folder;
  }
  const WorkFolder work(cache);
  const fs::path file = fetch(*wheel, work.path());
  check_digest(*wheel, file);
  const fs::path part = work.path() / "part";
  run_python({"-c",
              "import sys, zipfile\n"
              "wheel, folder, prefix = sys.argv[1:]\n"
              "with zipfile.ZipFile(wheel) as archive:\n"
              "    names = [n for n in archive.namelist() if n.startswith(prefix)]\n"
              "    archive.extractall(folder, names)\n",
              file.string(), part.string(), wheel->folder},
             work.path() / "log", "unpacking " + file.filename().string());
  std::error_code error;
  fs::rename(part, folder, error);
  // Another process may have been first; its folder is as good.
  check(!error || fs::exists(folder), "[plan] {} cannot be made: {}", folder.string(),
        error.message());
  return folder;
}

}  // namespace kinema::plan
