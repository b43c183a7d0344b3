#include "kinema/runtime/client.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "kinema/cluster/cpu_cluster.h"
#include "kinema/core/error.h"
#include "kinema/core/folders.h"
#include "kinema/core/parallel.h"
#include "kinema/core/quantities.h"
#include "kinema/flags/platform.h"
#include "kinema/kernels/cpu/isa.h"
#include "kinema/runtime/thread_limit.h"
#include "kinema/world/keys.h"

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

// The path of a plugin in its wheel, which is unpacked as CACHE/NAME-VERSION.
fs::path place_in_wheel(const std::string& hardware) {
  if (hardware == "tpu") return fs::path("libtpu") / "libtpu.so";
  if (hardware == "cuda") return fs::path("jax_plugins") / "xla_cuda13" / "xla_cuda_plugin.so";
  return fs::path("xla_plugins") / "xla_cpu_pjrt" / "xla_cpu_pjrt.so";
}

/// The CPU plugin of this program: in lib/kinema of an installation, next to the binary of a build,
/// or in the folder of remember_plugin_folder. Empty if there is none.
std::string shipped_plugin() {
  std::error_code error;
  for (const char* place : {"../lib/kinema/xla_cpu_pjrt.so", "xla_cpu_pjrt.so"}) {
    const fs::path plugin = (program_folder() / place).lexically_normal();
    if (plugin.is_absolute() && fs::is_regular_file(plugin, error)) return plugin.string();
  }
  const fs::path installed = fs::path(plugin_folder()) / "xla_cpu_pjrt.so";
  return installed.is_absolute() && fs::is_regular_file(installed, error) ? installed.string() : "";
}

/// Calls a function once, from another thread, if the object exists for a given number of seconds.
/// `finish` rethrows its exceptions.
class Overdue {
 public:
  Overdue(double seconds, std::function<void()> tell) {
    if (tell) {
      thread_ =
          start_optional_thread([this, seconds, tell = std::move(tell)] { wait(seconds, tell); });
    }
  }
  Overdue(const Overdue&) = delete;
  Overdue& operator=(const Overdue&) = delete;
  ~Overdue() { end(); }
  void finish() {
    end();
    if (error_) {
      std::rethrow_exception(error_);
    }
  }

 private:
  void wait(double seconds, const std::function<void()>& tell) {
    std::unique_lock lock(mutex_);
    if (!ends_.wait_for(lock, std::chrono::duration<double>(seconds), [&] { return over_; })) {
      try {
        tell();
      } catch (...) {
        error_ = std::current_exception();
      }
    }
  }
  void end() {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    ends_.notify_all();
    if (thread_.joinable()) {
      thread_.join();
    }
  }

  std::mutex mutex_;
  std::condition_variable ends_;
  bool over_ = false;
  std::exception_ptr error_;
  std::jthread thread_;
};

/// The keys and values with which the plugins of all processes connect.
pjrt::KeyValues key_values(const std::shared_ptr<world::World>& world) {
  // Plugins keep these as long as the client exists, so they refer to the engine, not to the world.
  const auto keys = std::make_shared<world::Keys>(world->engine(), [held = std::weak_ptr(world)] {
    const std::shared_ptr<world::World> asked = held.lock();
    return asked ? asked->failure() : "";
  });
  return {
      .put = [keys](const std::string& key, const std::string& value) { keys->put(key, value); },
      .get = [keys](const std::string& key,
                    std::chrono::milliseconds timeout) { return keys->get(key, timeout); },
      .try_get = [keys](const std::string& key) { return keys->find(key); }};
}

std::function<void()> telling(const ClientSpec& spec) {
  if (!spec.on_wait) {
    return {};
  }
  const int64_t hosts = spec.world->host_count();
  return [tell = spec.on_wait,
          line = fmt::format("waiting for {}: was kinema started on all of them?",
                             hosts > 1 ? counted(hosts, "host")
                                       : fmt::format("{} processes", spec.world->size()))] {
    tell(line);
  };
}

/// Plugins that connect processes themselves must number them as the world does.
void check_same_processes(const pjrt::Client& client, const ClientSpec& spec) {
  const int64_t count = client.process_count();
  const int64_t size = spec.world ? spec.world->size() : 1;
  const int64_t rank = spec.world ? spec.world->rank() : 0;
  const char* const remedy =
      spec.hardware == "tpu"
          ? "\n  TPU_WORKER_ID and TPU_WORKER_HOSTNAMES tell kinema which of them this one is"
          : "";
  check(count == size,
        "[runtime] the devices are of {} processes, but kinema was started as {} ({}){}", count,
        size, spec.world ? spec.world->launch().how : "one process: no launcher", remedy);
  check(size == 1 || client.process_index() == rank,
        "[runtime] the devices number this process {}, but {} numbers it {}\n  the two must "
        "number the hosts in the same way",
        client.process_index(), spec.world->launch().how, rank);
}

}  // namespace

pjrt::NamedValues visible_gpus(const world::Launch& launch, const world::Environment& environment) {
  pjrt::NamedValues out;
  const std::string visible = environment("CUDA_VISIBLE_DEVICES").value_or("");
  const bool has_its_own = !visible.empty() && visible.find(',') == std::string::npos;
  if (launch.local_size.value_or(1) > 1 && !has_its_own) {
    out.emplace("visible_devices", std::vector<int64_t>{launch.local_rank.value_or(0)});
  }
  return out;
}

pjrt::NamedValues node_options(const world::Launch& launch, const world::Environment& environment) {
  pjrt::NamedValues out = visible_gpus(launch, environment);
  out["node_id"] = launch.rank;
  out["num_nodes"] = launch.size;
  return out;
}

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
    if (!fs::is_regular_file(plugin, error)) continue;
    const int order = flags::compare_versions(flags::plugin_version(newest),
                                              flags::plugin_version(plugin.string()));
    if (order < 0 || (order == 0 && newest < plugin.string())) newest = plugin.string();
  }
  return newest;
}

std::string find_plugin(const ClientSpec& spec) {
  if (!spec.plugin.empty()) return spec.plugin;
  if (std::string path = environment("KINEMA_PJRT_PLUGIN"); !path.empty()) return path;
  if (spec.hardware != "cpu") {
    std::string path = installed_plugin(spec.hardware);
    check(!path.empty(),
          "[runtime] no plugin for hardware `{}` in `{}`\n"
          "  fetch it with: kinema doctor --install {}; or set pjrt_plugin=PATH",
          spec.hardware == "cuda" ? "gpu" : spec.hardware, cache_folder(), spec.hardware);
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

bool shows_tpu() {
  std::error_code error;
  return fs::exists("/dev/accel0", error) || fs::exists("/dev/vfio", error);
}

pjrt::Client open_client(const ClientSpec& spec) {
  const std::string path = find_plugin(spec);
  const bool chosen = !spec.plugin.empty() || !environment("KINEMA_PJRT_PLUGIN").empty();
  // Without a TPU, libtpu queries the network for one, and waits for minutes.
  check(spec.hardware != "tpu" || chosen || shows_tpu(),
        "[runtime] hardware is tpu, but this machine has none: there is no /dev/accel0 and no "
        "/dev/vfio\n"
        "  kinema plan compiles for TPUs on a machine without them; pjrt_plugin=PATH opens libtpu "
        "anyway");
  const bool is_cpu = spec.hardware == "cpu";
  const bool several = spec.world && !spec.world->is_alone();
  const bool shared = several && spec.shares_devices;
  if (is_cpu) limit_cpu_isa(spec.cpu_isa);
  check_thread_limit();

  pjrt::NamedValues options = spec.options;
  if (is_cpu) {
    check(spec.cpu_devices >= 1, "[runtime] {} CPU devices: at least 1 is needed",
          spec.cpu_devices);
    // The default is four. Each of several processes has this number, and all know all devices.
    options.emplace("cpu_device_count", spec.cpu_devices * (shared ? spec.world->size() : 1));
  }
  const bool has_nodes = shared && spec.hardware == "cuda";
  if (several && spec.hardware == "cuda") {
    options.merge(has_nodes ? node_options(spec.world->launch(), world::own_environment())
                            : visible_gpus(spec.world->launch(), world::own_environment()));
  }
  try {
    const pjrt::Plugin& plugin = pjrt::Plugin::load(path);
    if (is_cpu) {
      const bool is_one = !shared && spec.cpu_devices == 1;
      return pjrt::Client(
          plugin, options,
          is_one ? pjrt::Processes() : cluster::cpu_processes(shared ? spec.world : nullptr));
    }
    std::optional<Overdue> overdue;
    if (shared) {
      overdue.emplace(spec.wait_seconds, telling(spec));
    }
    pjrt::Client client(plugin, options, {},
                        has_nodes ? key_values(spec.world) : pjrt::KeyValues());
    if (overdue) {
      overdue->finish();
    }
    if (shared || spec.hardware == "tpu") {
      check_same_processes(client, spec);
    }
    return client;
  } catch (const Error& error) {
    check(spec.hardware != "cuda" ||
              std::string_view(error.what()).find("No visible GPU") == std::string_view::npos,
          "[runtime] hardware is gpu, but {} sees none\n  hardware=cpu runs here; kinema plan "
          "compiles for GPUs on a machine without them",
          path);
    throw;
  }
}

void limit_cpu_isa(const std::string& cpu_isa) {
  if (cpu_isa == "auto") return;
  const std::optional<kernels::Isa> most = kernels::isa_named(cpu_isa);
  check(most.has_value() && *most > kernels::Isa::Baseline,
        "[cpu_isa] `{}` is given, expected auto, avx2, avx512, avx512_bf16 or amx", cpu_isa);
  kernels::limit_isa(*most);
}

}  // namespace kinema::runtime
