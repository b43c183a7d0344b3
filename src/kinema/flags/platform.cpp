#include "kinema/flags/platform.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <span>

namespace kinema::flags {
namespace {

namespace fs = std::filesystem;

// Plugin versions for which the tables were measured, oldest first.
constexpr std::array<std::string_view, 5> kLibtpu = {"0.0.30", "0.0.42.1", "0.0.43.2", "0.0.51",
                                                     "0.0.52"};
constexpr std::array<std::string_view, 1> kCuda = {"0.12.0.1"};
constexpr std::array<std::string_view, 1> kCpu = {"0.0.1"};

constexpr std::array<std::string_view, 5> kTpuChips = {"v4", "v5e", "v5p", "v6e", "tpu7x"};

std::span<const std::string_view> measured(Backend backend) {
  switch (backend) {
    case Backend::TPU:
      return kLibtpu;
    case Backend::GPU:
      return kCuda;
    default:
      return kCpu;
  }
}

bool is_version(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789.") == std::string_view::npos;
}

/// VERSION of a folder `PACKAGE-VERSION` or `PACKAGE-VERSION.dist-info`; otherwise empty.
std::string version_in_name(std::string name, std::string_view package) {
  constexpr std::string_view kInfo = ".dist-info";
  if (name.ends_with(kInfo)) {
    name.resize(name.size() - kInfo.size());
  }
  std::ranges::replace(name, '_', '-');
  if (!name.starts_with(package) || name.size() <= package.size() + 1 ||
      name[package.size()] != '-') {
    return "";
  }
  std::string version = name.substr(package.size() + 1);
  return is_version(version) ? version : "";
}

/// The package that contains a plugin's file.
std::string_view package_of(const std::string& file) {
  return file == "libtpu.so"            ? "libtpu"
         : file == "xla_cuda_plugin.so" ? "jax-cuda13-pjrt"
         : file == "xla_cpu_pjrt.so"    ? "xla-cpu-pjrt"
                                        : "";
}

}  // namespace

std::string_view Platform::plugin() const {
  switch (backend) {
    case Backend::TPU:
      return "libtpu";
    case Backend::GPU:
      return "cuda";
    default:
      return "cpu";
  }
}

std::string_view Platform::table_version() const {
  return version.empty() ? measured(backend).back() : std::string_view(version);
}

bool Platform::in_table() const {
  return version.empty() || std::ranges::count(measured(backend), version) > 0;
}

std::string Platform::text() const {
  const std::string name = backend == Backend::TPU   ? "libtpu"
                           : backend == Backend::GPU ? "the CUDA plugin"
                                                     : "the CPU plugin";
  return fmt::format("{} {}{}", name, table_version(),
                     backend != Backend::TPU ? ""
                     : chip.empty()          ? " on an unknown TPU"
                                             : " on " + chip);
}

std::string chip_of_accelerator(std::string_view type) {
  const std::string_view name = type.substr(0, type.find('-'));
  if (name == "v5litepod" || name == "v5lite") {
    return "v5e";
  }
  return std::ranges::count(kTpuChips, name) > 0 ? std::string(name) : "";
}

std::string plugin_version(const std::string& path) {
  const std::string_view package = package_of(fs::path(path).filename().string());
  fs::path folder = fs::path(path).parent_path();
  constexpr int kDeepest = 4;  // the deepest level of a plugin in its package
  for (int i = 0; i < kDeepest && !package.empty() && folder.has_filename(); ++i) {
    if (std::string v = version_in_name(folder.filename().string(), package); !v.empty()) {
      return v;
    }
    folder = folder.parent_path();
    std::error_code error;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
      const std::string name = entry.path().filename().string();
      if (!name.ends_with(".dist-info")) {
        continue;
      }
      if (std::string v = version_in_name(name, package); !v.empty()) {
        return v;
      }
    }
  }
  return "";
}

int compare_versions(std::string_view a, std::string_view b) {
  while (!a.empty() || !b.empty()) {
    const auto take = [](std::string_view& text) {
      int64_t number = 0;
      const size_t dot = std::min(text.find('.'), text.size());
      std::from_chars(text.data(), text.data() + dot, number);
      text.remove_prefix(std::min(dot + 1, text.size()));
      return number;
    };
    const int64_t x = take(a);
    const int64_t y = take(b);
    if (x != y) {
      return x < y ? -1 : 1;
    }
  }
  return 0;
}

}  // namespace kinema::flags
