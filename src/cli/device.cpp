#include "cli/device.h"

#include <variant>
#include <vector>

#include "cli/compiler_flags.h"

namespace kinema::cli {
namespace {

std::vector<mesh::Device> devices_of(const pjrt::Client& client) {
  std::vector<mesh::Device> devices;
  for (const pjrt::Device& device : client.devices()) {
    const pjrt::DeviceDescription description = device.description();
    mesh::Device each{description.id, 0};
    if (const auto slice = description.attributes.find("slice_index");
        slice != description.attributes.end() && std::holds_alternative<int64_t>(slice->second)) {
      each.slice = std::get<int64_t>(slice->second);
    }
    devices.push_back(each);
  }
  return devices;
}

}  // namespace

runtime::ClientSpec client_spec(const config::Config& config) {
  runtime::ClientSpec spec;
  spec.plugin = config.run.pjrt_plugin;
  spec.hardware = config.run.hardware == "gpu" ? "cuda" : config.run.hardware;
  spec.cpu_devices = config.run.cpu_device_count;
  return spec;
}

mesh::Placement placement(const config::Config& config, const pjrt::Client& client) {
  const std::vector<mesh::Device> devices = devices_of(client);
  return placement(config, devices);
}

mesh::Placement placement(const config::Config& config, std::span<const mesh::Device> devices) {
  const config::ParallelConfig& parallel = config.parallel;
  const mesh::AxisRules rules =
      mesh::AxisRules::parse(parallel.logical_axis_rules, "logical_axis_rules");
  return {mesh::make_mesh(parallel, devices),
          rules.for_attention(config.model.attention, parallel.attention_sharding_uniform)};
}

mesh::Placement vae_placement(const config::Config& config, const pjrt::Client& client) {
  return {mesh::make_vae_mesh(config.model.vae_spatial, devices_of(client)),
          mesh::AxisRules::parse(config.parallel.vae_logical_axis_rules, "vae_logical_axis_rules"),
          "vae_logical_axis_rules"};
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

runtime::ProgramOptions step_program_options(const config::Config& config) {
  runtime::ProgramOptions options = program_options(config);
  options.saved = config.run.compiled_step;
  return options;
}

}  // namespace kinema::cli
