#include "kinema/runtime/environment.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/sysinfo.h>

#include <fstream>
#include <thread>

#include "kinema/core/error.h"
#include "kinema/runtime/cpu_features.h"

namespace kinema::runtime {
namespace {

// PJRT_Extension_Type_FFI; the number is part of PJRT's ABI.
constexpr int kFfiExtension = 5;

// The value of `key : value` for the first core; the key is `flags` on x86, `Features` on Arm.
std::string cpuinfo_field(const std::string& key) {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos || !line.starts_with(key)) continue;
    const size_t start = line.find_first_not_of(" \t", colon + 1);
    return start == std::string::npos ? "" : line.substr(start);
  }
  return "";
}

int64_t usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return CPU_COUNT(&set);
  return std::thread::hardware_concurrency();
}

void describe_plugin(const ClientSpec& spec, Environment& out) {
  out.plugin_path = find_plugin(spec);
  const pjrt::Client client = open_client(spec);
  const pjrt::Plugin& plugin = client.plugin();
  out.plugin_path = plugin.path();
  out.pjrt_version = fmt::format("{}.{}", plugin.major_version(), plugin.minor_version());
  out.stablehlo_version = plugin.stablehlo_version();
  out.plugin_attributes = plugin.attributes();
  out.has_ffi = plugin.extension(kFfiExtension) != nullptr;
  out.platform_name = client.platform_name();
  out.platform_version = client.platform_version();
  for (const pjrt::Device& device : client.devices()) out.devices.push_back(device.description());
}

}  // namespace

std::string cpu_model() { return cpuinfo_field("model name"); }

std::string cpu_features() {
  return fmt::format("{}|{}|{}", cpu_model(), cpuinfo_field("flags"), cpuinfo_field("Features"));
}

Environment describe_environment(const ClientSpec& spec) {
  Environment out;
  out.cache_folder = cache_folder();
  out.cpu_model = cpu_model();
  out.cpu_cores = usable_cores();
  struct sysinfo system {};
  if (sysinfo(&system) == 0) {
    out.memory_bytes = static_cast<int64_t>(system.totalram) * system.mem_unit;
  }
  try {
    describe_plugin(spec, out);
  } catch (const Error& error) {
    out.problem = error.what();
  }
  return out;
}

}  // namespace kinema::runtime
