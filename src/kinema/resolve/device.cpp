#include "kinema/resolve/device.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "kinema/core/quantities.h"
#include "kinema/io/folder.h"
#include "kinema/mesh/batch.h"
#include "kinema/resolve/compiler_flags.h"

namespace kinema::resolve {
namespace {

/// Memory options that differ from the plugin's defaults, with the names of XLA's GPU client.
pjrt::NamedValues memory_options(const config::RuntimeConfig& runtime) {
  pjrt::NamedValues options;
  if (!runtime.preallocate) {
    options["preallocate"] = false;
  }
  if (runtime.memory_fraction > 0) {
    options["memory_fraction"] = static_cast<float>(runtime.memory_fraction);
  }
  if (!runtime.allocator.empty()) {
    options["allocator"] = runtime.allocator;
  }
  return options;
}

/// True if `executable_cache` turns the program cache off.
bool is_off(const std::string& cache) {
  return cache == "off" || cache == "none" || cache == "false";
}

/// A variable that JAX reads and plugins do not, and kinema's key for the same setting.
struct JaxVariable {
  const char* name;
  std::string_view key;
};
constexpr JaxVariable kJaxVariables[] = {
    {"XLA_PYTHON_CLIENT_PREALLOCATE", "preallocate"},
    {"XLA_PYTHON_CLIENT_MEM_FRACTION", "memory_fraction"},
    {"XLA_PYTHON_CLIENT_ALLOCATOR", "allocator"},
    {"JAX_COMPILATION_CACHE_DIR", "executable_cache"},
    {"JAX_DEBUG_NANS", "debug_nans"},
    {"JAX_DISABLE_JIT", "jit"},
    {"JAX_PLATFORMS", "hardware"},
    {"JAX_TRANSFER_GUARD", "transfer_guard"},
};

bool is_on(const std::string& cache) { return cache.empty() || cache == "on" || cache == "true"; }

/// A TPU's position: core of the chip, x, y, z; empty if one is missing.
std::vector<int64_t> grid_place(const pjrt::NamedValues& attributes) {
  const auto coords = attributes.find("coords");
  const auto core = attributes.find("core_on_chip");
  if (coords == attributes.end() || core == attributes.end() ||
      !std::holds_alternative<std::vector<int64_t>>(coords->second) ||
      !std::holds_alternative<int64_t>(core->second)) {
    return {};
  }
  std::vector<int64_t> out = std::get<std::vector<int64_t>>(coords->second);
  out.insert(out.begin(), std::get<int64_t>(core->second));
  return out;
}

/// The slice index that a device reports.
std::optional<int64_t> told_slice(const pjrt::NamedValues& attributes) {
  for (const char* name : {"slice_index", "partition_index"}) {
    if (const auto found = attributes.find(name);
        found != attributes.end() && std::holds_alternative<int64_t>(found->second)) {
      return std::get<int64_t>(found->second);
    }
  }
  return std::nullopt;
}

/// The index of a process's host, in the order of the first process on each host.
int64_t host_of(int64_t process, std::span<const std::string> hosts) {
  if (process < 0 || process >= std::ssize(hosts)) {
    return process;
  }
  const auto own = hosts.begin() + process;
  const auto first = std::find(hosts.begin(), own, *own);
  return std::ssize(std::set<std::string>(hosts.begin(), first));
}

std::vector<pjrt::DeviceDescription> described(std::span<const pjrt::Device> devices) {
  std::vector<pjrt::DeviceDescription> out;
  for (const pjrt::Device& device : devices) {
    out.push_back(device.description());
  }
  return out;
}

std::vector<mesh::Device> own_devices_of(const pjrt::Client& client) {
  return mesh_devices(described(client.addressable_devices()), client.platform_name(), {});
}

}  // namespace

std::vector<mesh::Device> mesh_devices(std::span<const pjrt::DeviceDescription> devices,
                                       const std::string& platform,
                                       std::span<const std::string> hosts) {
  std::vector<mesh::Device> out;
  for (const pjrt::DeviceDescription& device : devices) {
    const int64_t untold =
        platform == "cpu" || platform == "tpu" ? 0 : host_of(device.process_index, hosts);
    mesh::Device each{device.id, told_slice(device.attributes).value_or(untold)};
    if (platform == "tpu") {
      each.coordinates = grid_place(device.attributes);
    }
    out.push_back(std::move(each));
  }
  return out;
}

bool has_mock_devices(const config::Config& config) { return config.runtime.mock_devices > 0; }

std::vector<std::string> device_notices(const config::Config& config) {
  std::vector<std::string> out;
  for (const JaxVariable& each : kJaxVariables) {
    if (std::getenv(each.name) != nullptr) {
      out.push_back(
          fmt::format("{} is set, which only JAX reads: in kinema use {}=", each.name, each.key));
    }
  }
  if (has_mock_devices(config)) {
    out.push_back(
        fmt::format("mock_devices: {} devices of the CPU plugin simulate those of hardware {}",
                    config.runtime.mock_devices, config::word_of(config.run.hardware)));
  }
  const pjrt::NamedValues options = memory_options(config.runtime);
  if (!options.empty() &&
      (config.run.hardware != config::Hardware::GPU || has_mock_devices(config))) {
    std::string names;
    for (const auto& [name, value] : options) {
      names += (names.empty() ? "" : ", ") + name;
    }
    out.push_back(names + ": only the GPU plugin uses these memory options, they have no effect");
  }
  return out;
}

runtime::ClientSpec client_spec(const config::Config& config) {
  runtime::ClientSpec spec;
  spec.cpu_isa = config.run.cpu_isa;
  if (has_mock_devices(config)) {
    spec.cpu_devices = config.runtime.mock_devices;
    return spec;
  }
  spec.plugin = config.run.pjrt_plugin;
  spec.hardware =
      config.run.hardware == config::Hardware::GPU ? "cuda" : config::word_of(config.run.hardware);
  spec.cpu_devices = config.run.cpu_device_count;
  if (config.run.hardware == config::Hardware::GPU) {
    spec.options = memory_options(config.runtime);
  }
  return spec;
}

namespace {

/// A missing cache is not an error: containers may run without a home folder, on read-only file
/// systems.
std::optional<std::string> cache_notice(const config::Config& config) {
  const std::string folder = program_options(config).executable_cache;
  const std::string why = folder.empty() ? "" : io::write_problem(folder);
  if (why.empty()) {
    return std::nullopt;
  }
  return fmt::format(
      "compiled programs are not cached, so each run recompiles them: {} cannot be written: {}\n"
      "  executable_cache=FOLDER or the variable KINEMA_CACHE sets another folder, "
      "executable_cache=off disables the cache",
      folder, why);
}

pjrt::Client open_client_of(const config::Config& config, const Job& job, bool shares_devices) {
  if (const std::optional<std::string> notice = cache_notice(config)) {
    job.notice(*notice);
  }
  runtime::ClientSpec spec = client_spec(config);
  spec.world = job.shared_world();
  spec.shares_devices = shares_devices;
  spec.on_wait = [job](const std::string& line) { job.notice(line); };
  return runtime::open_client(spec);
}

}  // namespace

pjrt::Client open_client(const config::Config& config, const Job& job) {
  return open_client_of(config, job, /*shares_devices=*/true);
}

pjrt::Client open_local_client(const config::Config& config, const Job& job) {
  return open_client_of(config, job, /*shares_devices=*/false);
}

mesh::Placement placement(const config::Config& config, const pjrt::Client& client,
                          std::span<const std::string> hosts) {
  const std::vector<mesh::Device> devices =
      mesh_devices(described(client.devices()), client.platform_name(), hosts);
  return placement(config, devices);
}

int64_t requested_devices(const config::Config& config) {
  const config::ParallelConfig& p = config.parallel;
  int64_t asked = 1;
  for (const int64_t size :
       {p.ici_data_parallelism, p.ici_fsdp_parallelism, p.ici_context_parallelism,
        p.ici_tensor_parallelism, p.dcn_data_parallelism, p.dcn_fsdp_parallelism,
        p.dcn_context_parallelism, p.dcn_tensor_parallelism}) {
    asked *= std::max<int64_t>(size, 1);
  }
  return asked;
}

mesh::Placement local_placement(const config::Config& config, const pjrt::Client& client) {
  return placement(config, own_devices_of(client));
}

mesh::Placement placement(const config::Config& config, std::span<const mesh::Device> devices) {
  const config::ParallelConfig& parallel = config.parallel;
  const mesh::AxisRules rules =
      mesh::AxisRules::parse(parallel.logical_axis_rules, "logical_axis_rules");
  return {mesh::make_mesh(parallel, devices),
          rules.for_attention(config.model.attention, parallel.attention_sharding_uniform)};
}

std::string batch_origin(const config::Config& config, const mesh::Placement& place) {
  const config::OptimizerConfig& o = config.optimizer;
  return o.global_batch_size > 0
             ? "global_batch_size"
             : fmt::format("per_device_batch_size {} on {}", o.per_device_batch_size,
                           counted(place.devices(), "device"));
}

std::string batch_argument(const config::Config& config, int64_t samples, int64_t devices) {
  return config.optimizer.global_batch_size > 0
             ? fmt::format("global_batch_size={}", samples)
             : fmt::format("per_device_batch_size={}",
                           static_cast<double>(samples) / static_cast<double>(devices));
}

std::string batch_text(const config::Config& config, const mesh::Placement& asked,
                       int64_t samples) {
  return mesh::batch_text(
      asked, samples,
      fmt::format("sample{} ({})", samples == 1 ? "" : "s", batch_origin(config, asked)));
}

mesh::Placement vae_placement(const config::Config& config, const pjrt::Client& client) {
  return {mesh::make_vae_mesh(config.model.vae_spatial, own_devices_of(client)),
          mesh::AxisRules::parse(config.parallel.vae_logical_axis_rules, "vae_logical_axis_rules"),
          "vae_logical_axis_rules"};
}

kernels::GpuAttention gpu_attention(const config::Config& config) {
  using Kernel = kernels::GpuAttention::Kernel;
  switch (config.model.attention_gpu_kernel) {
    case config::GpuAttentionKernel::AUTO:
      return {.kernel = Kernel::AUTO};
    case config::GpuAttentionKernel::CUDNN:
      return {.kernel = Kernel::CUDNN};
    case config::GpuAttentionKernel::CUDNN_FP8:
      return {.kernel = Kernel::CUDNN_FP8};
    case config::GpuAttentionKernel::TRITON:
      return {.kernel = Kernel::TRITON};
    case config::GpuAttentionKernel::BLOCKWISE:
      break;
  }
  return {.kernel = Kernel::BLOCKWISE};
}

Kernels wanted_kernels(const config::Config& config) {
  return {.attention = config.model.attention_kernels,
          .norm_rotation = config.model.norm_rotation_kernel};
}

config::Loaded with_kernels(config::Loaded loaded, const Kernels& kernels) {
  loaded.config.model.attention_kernels = kernels.attention;
  loaded.config.model.norm_rotation_kernel = kernels.norm_rotation;
  return loaded;
}

void set_emit_options(const config::Config& config, bool is_cpu, runtime::ProgramOptions& options) {
  options.dump = config.run.dump_to;
  options.kernels = is_cpu ? config.run.cpu_kernels : config.model.attention_kernels;
  options.gpu_attention = gpu_attention(config);
  options.norm_rotation = config.model.norm_rotation_kernel;
}

runtime::ProgramOptions program_options(const config::Config& config) {
  runtime::ProgramOptions options;
  const std::string& cache = config.run.executable_cache;
  if (!is_off(cache)) {
    options.executable_cache = is_on(cache) ? runtime::cache_folder() + "/programs" : cache;
  }
  set_emit_options(config, config.run.hardware == config::Hardware::CPU, options);
  options.jit = config.runtime.jit;
  options.compile.flags = program_flags(resolve_flags({.config = config}, {}));
  set_effort(config, config.run.hardware == config::Hardware::TPU && !has_mock_devices(config),
             options.compile);
  return options;
}

runtime::ProgramOptions step_program_options(const config::Config& config) {
  runtime::ProgramOptions options = program_options(config);
  options.saved = config.run.compiled_step;
  return options;
}

void limit_cpu_isa(const config::Config& config) { runtime::limit_cpu_isa(config.run.cpu_isa); }

TileSearch tile_search(const config::Config& config) {
  const config::ModelConfig& model = config.model;
  return {.on = model.enable_tile_search,
          .full = model.tile_search_mode == "full",
          .runs = model.tile_search_iters,
          .folder = model.tile_search_out,
          .attention = model.attention};
}

}  // namespace kinema::resolve
