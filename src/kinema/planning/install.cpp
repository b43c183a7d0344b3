#include "kinema/planning/install.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <vector>

#include "kinema/core/errno_text.h"
#include "kinema/core/error.h"
#include "kinema/io/atomic_write.h"
#include "kinema/planning/child_process.h"
#include "kinema/planning/child_text.h"
#include "kinema/remote/digest.h"

namespace kinema::planning {
namespace {

namespace fs = std::filesystem;

// The libraries are those that the plugin's release requires (jax-cuda13-plugin 0.12.0.1, extra
// `with-cuda`), without NVSHMEM, whose collectives are off by default. The plugin was built with
// CUDA 13.0.0 and cuDNN 9.12.0 and accepts later ones of the same major version. These are of CUDA
// 13.2.2: cuBLAS before 13.2 is unsafe on Blackwell with several streams (JAX warns of it), and
// planning cuDNN's attention without a device needs cuDNN 9.23.
std::vector<Wheel> cuda_wheels() {
  const std::string linux_2_12 = "manylinux2010_x86_64";
  const std::string linux_2_17 = "manylinux2014_x86_64";
  const std::string linux_2_27 = "manylinux_2_27_x86_64";
  return {
      {"jax-cuda13-pjrt", "0.12.0.1",
       "5899bb6177eda86ea532afb9a26794f2bdd04966f6a01f9028266b16c2b6cf90", linux_2_27, 135, 396},
      {"nvidia-nvjitlink", "13.2.86",
       "285a9cead9924391588d794400bdd7e8f9d1a277a7d78ed79acfa0ea702a14dd", linux_2_12, 41, 101},
      {"nvidia-nvvm", "13.2.86", "a9244f3209922d655612c11ebb4117ea1f80983cb2b215c9cccded127282cebc",
       linux_2_12, 64, 147},
      {"nvidia-cuda-nvcc", "13.2.86",
       "7d3f56c8d705bad35bbba69eb0470d90856fd5d4dc48c6a6173aaf1e9f887cf5", linux_2_17, 44, 141},
      {"nvidia-cuda-runtime", "13.2.86",
       "3498247680dfddce31bad102af7e3e26fc795342a3cac64722bb0fa95e7f60f0", linux_2_17, 2, 8},
      {"nvidia-cublas", "13.4.1.3",
       "a5917cb642cfb07f4a0231ee16aec7e2e0357d8cb8b1b78a0c9c68dba3e6afc7", linux_2_27, 405, 564},
      {"nvidia-cudnn-cu13", "9.23.2.1",
       "0c38408c043d67ea8a3cbe61fe272c3cf5c7f5ec466adfe8ac63e91d4f11cdc7", linux_2_27, 519, 878},
      {"nvidia-cuda-nvrtc", "13.2.86",
       "8111c5130e967b78222ea2124145f8efe9ce201b752b2579a2513100a53be1c5", linux_2_12, 47, 120},
      {"nvidia-nccl-cu13", "2.29.7",
       "edd81538446786ec3b73972543e53bb43bcaf0bfc8ef76cb679fcc390ffe136d", "manylinux_2_18_x86_64",
       206, 237},
      {"nvidia-cufft", "12.2.0.57",
       "34da27fadf3979b0b042c43823f0530be8408b86df31ee0108e1ca0b621d4ef6", linux_2_17, 218, 292},
      {"nvidia-cusolver", "12.2.0.11",
       "fab5778f6769947389a1a6abc07e635576825a08c0ffc68c3ae7f1392c794b42", linux_2_27, 228, 277},
      {"nvidia-cusparse", "12.7.10.12",
       "25907c75e4db1581685f06f61cc6cdecc04611765516a52373e0a18ebd69fa00", linux_2_17, 151, 168},
      {"nvidia-cuda-cupti", "13.2.86",
       "8fa29f15dd8336181f961764d9d95236fc6b931dd0c8fcf8cd70aab0c310b586", "manylinux_2_25_x86_64",
       12, 49},
  };
}

const std::vector<Installation>& table() {
  static const std::vector<Installation> all = {
      {.hardware = "tpu",
       .what = "the compiler for TPUs",
       .wheels = {{"libtpu", "0.0.52",
                   "f5e2e596eaea9357fbb5a6755a7a9007c6ab75bfde4a55191b03eff402971140",
                   "manylinux_2_31_x86_64", 137, 507}}},
      {.hardware = "cuda",
       .what = "the compiler for NVIDIA GPUs and the libraries that it and a run load",
       .wheels = cuda_wheels()},
  };
  return all;
}

/// Another ./dev or doctor may download into the same cache, so each uses a separate folder.
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
        doing, reason(child_text(log)));
}

fs::path fetch(const Wheel& wheel, const fs::path& work) {
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

void check_digest(const Wheel& wheel, const fs::path& file) {
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

/// pip's record of an installed wheel: written last, so that it marks the rest as complete.
fs::path record_of(const Wheel& wheel) {
  std::string name = wheel.package;
  std::ranges::replace(name, '-', '_');
  return fmt::format("{}-{}.dist-info", name, wheel.version);
}

/// Extracts libraries and metadata, without headers.
void unpack(const fs::path& wheel, const fs::path& folder, const fs::path& log) {
  run_python({"-c",
              "import os, sys, zipfile\n"
              "wheel, folder = sys.argv[1:]\n"
              "with zipfile.ZipFile(wheel) as archive:\n"
              "    for member in archive.infolist():\n"
              "        if member.is_dir() or '/include/' in member.filename:\n"
              "            continue\n"
              "        path = archive.extract(member, folder)\n"
              "        if member.external_attr >> 16 & 0o100:\n"
              "            os.chmod(path, 0o755)\n",
              wheel.string(), folder.string()},
             log, "unpacking " + wheel.filename().string());
}

/// Moves every file of `from` to the same path in `to`; paths that contain `last` are moved last.
void move_files(const fs::path& from, const fs::path& to, const fs::path& last) {
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(from)) {
    if (entry.is_regular_file()) {
      files.push_back(entry.path().lexically_relative(from));
    }
  }
  std::stable_partition(files.begin(), files.end(),
                        [&](const fs::path& file) { return *file.begin() != last; });
  for (const fs::path& file : files) {
    std::error_code error;
    fs::create_directories((to / file).parent_path(), error);
    fs::rename(from / file, to / file, error);
    check(!error, "[plan] {} cannot be written: {}", (to / file).string(), errno_text(error));
  }
}

void install_wheel(const Wheel& wheel, const fs::path& folder, const fs::path& cache) {
  const WorkFolder work(cache);
  const fs::path file = fetch(wheel, work.path());
  check_digest(wheel, file);
  const fs::path part = work.path() / "part";
  unpack(file, part, work.path() / "log");
  move_files(part, folder, record_of(wheel));
}

/// Checks for free space first, so that a full disk is found before minutes of downloads.
void check_space(std::span<const Wheel> wheels, const fs::path& cache) {
  constexpr double kPerGB = 1000.0;
  int64_t unpacked = 0;
  int64_t largest = 0;
  for (const Wheel& wheel : wheels) {
    unpacked += wheel.unpacked_megabytes;
    largest = std::max(largest, wheel.megabytes);
  }
  std::error_code error;
  const fs::space_info space = fs::space(cache, error);
  const int64_t needed = unpacked + largest;
  check(error || space.available / 1000000 >= static_cast<uintmax_t>(needed),
        "[plan] {:.1f} GB are needed in {}, {:.1f} GB are free\n  set KINEMA_CACHE to a folder "
        "with more",
        static_cast<double>(needed) / kPerGB, cache.string(),
        static_cast<double>(space.available) / 1e9);
}

}  // namespace

std::string Installation::folder() const {
  return fmt::format("{}-{}", wheels.front().package, wheels.front().version);
}

std::span<const Installation> installations() { return table(); }

std::vector<Wheel> missing_wheels(const Installation& installation, const fs::path& cache) {
  std::vector<Wheel> missing;
  std::error_code error;
  for (const Wheel& wheel : installation.wheels) {
    if (!fs::exists(cache / installation.folder() / record_of(wheel) / "RECORD", error)) {
      missing.push_back(wheel);
    }
  }
  return missing;
}

const Installation& installation_for(const std::string& hardware) {
  const auto found = std::ranges::find(table(), hardware, &Installation::hardware);
  check(found != table().end(), "[plan] there is no plugin to install for `{}`\n  give tpu or cuda",
        hardware);
  return *found;
}

fs::path install(const Installation& installation, const fs::path& cache,
                 const InstallObserver& observer) {
  const fs::path folder = cache / installation.folder();
  const std::vector<Wheel> missing = missing_wheels(installation, cache);
  if (missing.empty()) {
    return folder;
  }
  {
    const WorkFolder writable(cache);  // also creates the cache, whose disk space is checked
    check_space(missing, cache);
  }
  for (const Wheel& wheel : missing) {
    if (observer) {
      observer(
          fmt::format("fetching {} {} ({} MB)", wheel.package, wheel.version, wheel.megabytes));
    }
    install_wheel(wheel, folder, cache);
  }
  return folder;
}

}  // namespace kinema::planning
