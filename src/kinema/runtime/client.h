#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "kinema/pjrt/client.h"
#include "kinema/world/world.h"

namespace kinema::runtime {

/// The plugin and devices of a client.
struct ClientSpec {
  /// Path of a plugin; if empty, find_plugin searches for one.
  std::string plugin = {};
  /// `cpu`, `cuda` or `tpu`: the kind of plugin to search if no path is given.
  std::string hardware = "cpu";
  /// CPU only: number of devices per process.
  int64_t cpu_devices = 1;
  /// Additional options of the plugin.
  pjrt::NamedValues options = {};
  /// CPU only: the best instruction set that the plugin's code and the kernels use, `avx2`,
  /// `avx512`, `avx512_bf16` or `amx`; `auto`: the processor's. Results are bit-identical to those
  /// of a processor with only this instruction set.
  std::string cpu_isa = "auto";
  /// The processes that share the devices; null: a single process. All open a client at the same
  /// point.
  std::shared_ptr<world::World> world = {};
  /// False: each process of the world has separate devices, which the others do not see. TPU
  /// hosts see each other's devices in any case.
  bool shares_devices = true;
  /// Called once with a log line if the other processes have not arrived within `timeouts` seconds;
  /// from a separate thread.
  std::function<void(const std::string& line)> on_wait = {};
  double wait_seconds = 60;
};

/// With several processes on this host, the GPU that the CUDA plugin uses in this process
/// (`visible_devices`): one per process. If CUDA_VISIBLE_DEVICES already selects one (as with `srun
/// --gpus-per-task=1`), that GPU.
pjrt::NamedValues visible_gpus(const world::Launch& launch, const world::Environment& environment);
/// The same for processes that share their devices, with `node_id` and `num_nodes`.
pjrt::NamedValues node_options(const world::Launch& launch, const world::Environment& environment);

/// The newest plugin for `cpu`, `cuda` or `tpu` among the wheels unpacked in the cache folder;
/// empty if there is none.
std::string installed_plugin(const std::string& hardware);

/// The plugin's path: `spec.plugin`, else KINEMA_PJRT_PLUGIN, else (for cpu) KINEMA_PJRT_CPU or the
/// program's own (in lib/kinema of an installation, next to the binary of a build), else
/// installed_plugin. Throws an Error with the searched path and the remedy.
std::string find_plugin(const ClientSpec& spec);

/// Sets the folder of the CPU plugin for programs that are linked with an installed kinema:
/// kinema.h calls it before `main`, with the folder that find_package found. Always returns true.
bool remember_plugin_folder(const char* folder);

/// KINEMA_CACHE, else `kinema` in kinema::user_cache(), which also handles a missing HOME.
std::string cache_folder();

/// True if the kernel has devices for a TPU: /dev/accel0 up to v4, /dev/vfio from v5e on.
bool shows_tpu();

/// Loads the plugin and opens its devices. `cpu_isa` limits the kernels of the whole process.
/// Throws an Error for `tpu` on a machine without one, unless the plugin's path is given, and for
/// an instruction set that the processor lacks.
pjrt::Client open_client(const ClientSpec& spec);

/// Limits this process like a client with that `cpu_isa`.
void limit_cpu_isa(const std::string& cpu_isa);

}  // namespace kinema::runtime
