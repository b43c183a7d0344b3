#include "kinema/runtime/client.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <vector>

#include "kinema/cluster/cpu_cluster.h"
#include "kinema/core/error.h"
#include "kinema/core/folders.h"
#include "kinema/kernels/cpu/isa.h"

namespace kinema::runtime {
namespace {

std::string& plugin_folder() {
  static std::string folder;
  return folder;
}

namespace fs = std::filesystem;

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// Where a plugin's wheel keeps it; a wheel is unpacked as CACHE/NAME-VERSION.
fs::path place_in_wheel(const std::string& hardware) {
  if (hardware == "tpu") return fs::path("libtpu") / "libtpu.so";
  if (hardware == "cuda") return fs::path("jax_plugins") / "xla_cuda13" / "xla_cuda_plugin.so";
  return fs::path("xla_plugins") / "xla_cpu_pjrt" / "xla_cpu_pjrt.so";
}

/// The CPU plugin that came with this program: of an installed one in lib/kinema, of a build beside
/// the binary, or what remember_plugin_folder told. Empty when there is none.
std::string shipped_plugin() {
  std::error_code error;
  for (const char* place : {"../lib/kinema/xla_cpu_pjrt.so", "xla_cpu_pjrt.so"}) {
    const fs::path plugin = (program_folder() / place).lexically_normal();
    if (plugin.is_absolute() && fs::is_regular_file(plugin, error)) return plugin.string();
  }
  const fs::path installed = fs::path(plugin_folder()) / "xla_cpu_pjrt.so";
  return installed.is_absolute() && fs::is_regular_file(installed, error) ? installed.string() : "";
}

/// True when the kernel shows a TPU: /dev/accel0 up to v4, /dev/vfio from v5e on.
bool shows_tpu() {
  std::error_code error;
  return fs::exists("/dev/accel0", error) || fs::exists("/dev/vfio", error);
}

}  // namespace

bool remember_plugin_folder(const char* folder) {
  plugin_folder() = folder;
  return true;
}

std::string cache_folder() {
  if (std::string own = environment("KINEMA_CACHE"); !own.empty()) return own;
  return (user_cache() / "kinema").string();
}

std::string installed_plugin(const std::string& hardware) {
  std::string newest;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(cache_folder(), error)) {
    const fs::path plugin = entry.path() / place_in_wheel(hardware);
    if (fs::is_regular_file(plugin, error)) newest = std::max(newest, plugin.string());
  }
  return newest;
}

std::string find_plugin(const ClientSpec& spec) {
  if (!spec.plugin.empty()) return spec.plugin;
  if (std::string path = environment("KINEMA_PJRT_PLUGIN"); !path.empty()) return path;
  if (spec.hardware != "cpu") {
    std::string path = installed_plugin(spec.hardware);
    check(!path.empty(),
          "[runtime] no plugin for hardware `{0}` in `{1}`\n"
          "  fetch it with: kinema doctor --install {0}; or set pjrt_plugin=PATH",
          spec.hardware, cache_folder());
    return path;
  }
  if (std::string path = environment("KINEMA_PJRT_CPU"); !path.empty()) return path;
  if (std::string path = shipped_plugin(); !path.empty()) return path;
  if (std::string path = installed_plugin("cpu"); !path.empty()) return path;
  fail(
      "[runtime] no CPU plugin: looked for */xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so in `{}`\n"
      "  set KINEMA_PJRT_CPU or pjrt_plugin to xla_cpu_pjrt.so (an installed kinema has it in "
      "lib/kinema, `./dev build` fetches it)",
      cache_folder());
}

pjrt::Client open_client(const ClientSpec& spec) {
  const std::string path = find_plugin(spec);
  const bool chosen = !spec.plugin.empty() || !environment("KINEMA_PJRT_PLUGIN").empty();
  // Without a TPU libtpu asks the network for one, and waits for minutes.
  check(spec.hardware != "tpu" || chosen || shows_tpu(),
        "[runtime] hardware is tpu, but this machine shows none: there is no /dev/accel0 and no "
        "/dev/vfio\n"
        "  kinema plan compiles for TPUs that are not here; pjrt_plugin=PATH opens libtpu anyway");
  const bool is_cpu = spec.hardware == "cpu";
  const bool shared = spec.world && !spec.world->is_alone();
  if (is_cpu) limit_cpu_isa(spec.cpu_isa);

  pjrt::NamedValues options = spec.options;
  if (is_cpu) {
    check(spec.cpu_devices >= 1, "[runtime] {} CPU devices: at least 1 is needed",
          spec.cpu_devices);
    // Untold, it shows four. Of several processes each has that many, and all know of all.
    options.emplace("cpu_device_count", spec.cpu_devices * (shared ? spec.world->size() : 1));
  }
  try {
    return pjrt::Client(
        pjrt::Plugin::load(path), options,
        is_cpu && shared
            ? cluster::cpu_processes(*spec.world, [world = spec.world] { return world->failure(); })
            : pjrt::Processes());
  } catch (const Error& error) {
    check(spec.hardware != "cuda" ||
              std::string_view(error.what()).find("No visible GPU") == std::string_view::npos,
          "[runtime] hardware is gpu, but {} sees none\n  hardware=cpu runs here; kinema plan "
          "compiles for GPUs that are not here",
          path);
    throw;
  }
}

void limit_cpu_isa(const std::string& cpu_isa) {
  if (cpu_isa == "auto") return;
  const std::optional<kernels::Isa> most = kernels::isa_named(cpu_isa);
  check(most.has_value() && *most > kernels::Isa::Baseline,
        "[cpu_isa] `{}` is none of auto, avx2, avx512, avx512_bf16 and amx", cpu_isa);
  kernels::limit_isa(*most);
}

}  // namespace kinema::runtime
