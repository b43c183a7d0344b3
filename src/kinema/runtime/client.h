#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "kinema/pjrt/client.h"
#include "kinema/world/world.h"

namespace kinema::runtime {

/// Which plugin and which devices.
struct ClientSpec {
  /// Path of a plugin; empty looks for one (see find_plugin).
  std::string plugin = {};
  /// `cpu`, `cuda` or `tpu`: which kind of plugin to look for when no path is given.
  std::string hardware = "cpu";
  /// CPU only: how many devices one process has.
  int64_t cpu_devices = 1;
  /// Further options of the plugin.
  pjrt::NamedValues options = {};
  /// CPU only: the most that the plugin's code and the kernels use, `avx2`, `avx512`, `avx512_bf16`
  /// or `amx`; `auto`: what the processor has. Bits are those of a processor that has no more.
  std::string cpu_isa = "auto";
  /// The processes that share the devices; null: this one has them all. All open a client at the
  /// same point.
  std::shared_ptr<world::World> world = {};
  /// False: each process of the world has devices for itself, of which the others know nothing.
  /// Hosts of TPUs know of each other's all the same.
  bool shares_devices = true;
  /// Told, once, that the other processes have not come within `patience` seconds; from a thread of
  /// its own, while the one that opens waits.
  std::function<void(const std::string& line)> on_wait = {};
  double patience = 60;
};

/// With several processes on this host, which of its GPUs the CUDA plugin shows to this one
/// (`visible_devices`): one each. A process that CUDA_VISIBLE_DEVICES already leaves one (as `srun
/// --gpus-per-task=1` does) takes that.
pjrt::NamedValues visible_gpus(const world::Place& place, const world::Environment& environment);
/// The same of processes that share their devices, with `node_id` and `num_nodes`.
pjrt::NamedValues node_options(const world::Place& place, const world::Environment& environment);

/// The newest plugin for `cpu`, `cuda` or `tpu` among the wheels unpacked in the cache folder;
/// empty when there is none.
std::string installed_plugin(const std::string& hardware);

/// The plugin's path: `spec.plugin`, else KINEMA_PJRT_PLUGIN, else (for cpu) KINEMA_PJRT_CPU or the
/// one that came with the program (lib/kinema of an installed one, beside the binary of a build),
/// else installed_plugin. Throws an Error that says what was looked for and what to do.
std::string find_plugin(const ClientSpec& spec);

/// Where the CPU plugin of an installed kinema lies, for programs that are linked with it and lie
/// elsewhere: kinema.h tells it before `main`, of what find_package found. Always true.
bool remember_plugin_folder(const char* folder);

/// KINEMA_CACHE, else `kinema` in kinema::user_cache(), which see for what happens without HOME.
std::string cache_folder();

/// True when the kernel shows a TPU: /dev/accel0 up to v4, /dev/vfio from v5e on.
bool shows_tpu();

/// Loads the plugin and opens its devices. A `cpu_isa` limits the kernels of the whole process.
/// Throws an Error for `tpu` on a machine that shows none, unless the plugin is named, and for an
/// instruction set that the processor lacks.
pjrt::Client open_client(const ClientSpec& spec);

/// Limits this process as a client with that `cpu_isa` would.
void limit_cpu_isa(const std::string& cpu_isa);

}  // namespace kinema::runtime
