#include "cli/device.h"

#include "cli/compiler_flags.h"

namespace kinema::cli {

runtime::ClientSpec client_spec(const config::Config& config) {
  runtime::ClientSpec spec;
  spec.plugin = config.run.pjrt_plugin;
  spec.hardware = config.run.hardware == "gpu" ? "cuda" : config.run.hardware;
  spec.cpu_devices = config.run.cpu_device_count;
  return spec;
}

runtime::ProgramOptions program_options(const config::Config& config) {
  runtime::ProgramOptions options;
  const std::string& cache = config.run.executable_cache;
  if (cache != "none") {
    options.executable_cache = cache.empty() ? runtime::cache_folder() + "/programs" : cache;
  }
  options.dump = config.run.dump_to;
  options.kernels = config.run.cpu_kernels;
  options.compile.flags = resolve_flags({.config = config}, {}).options();
  return options;
}

}  // namespace kinema::cli
