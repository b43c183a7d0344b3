#include "kinema/agents/device.h"

#include <array>
#include <charconv>
#include <set>
#include <string_view>

#include "kinema/core/error.h"
#include "kinema/runtime/client.h"

namespace kinema::agents {
namespace {

constexpr const char* kMeshKey = "jax.train_mesh";

/// Devices along data, fsdp and tensor; -1: what the others leave.
std::array<int64_t, 3> mesh_sizes(const std::string& text) {
  std::array<int64_t, 3> out{};
  const char* at = text.data();
  const char* end = at + text.size();
  bool is_good = true;
  for (size_t i = 0; i < out.size(); ++i) {
    const auto read = std::from_chars(at, end, out[i]);
    const bool is_last = i + 1 == out.size();
    is_good = is_good && read.ec == std::errc() &&
              (is_last ? read.ptr == end : read.ptr != end && *read.ptr == ',');
    at = is_good && !is_last ? read.ptr + 1 : read.ptr;
  }
  check(is_good && out[2] == 1,
        "[settings] `{}` is {} but must be devices along data, fsdp and tensor, of which the last "
        "is 1: -1,1,1 or 2,4,1",
        kMeshKey, text);
  return out;
}

}  // namespace

std::string platform_of(const Settings& settings) {
  const std::string& platform = settings.text("jax.platform");
  check(platform == "cpu" || platform == "tpu" || platform == "cuda" || platform == "gpu",
        "[settings] `jax.platform` is {} but must be cpu, gpu, cuda or tpu", platform);
  return platform == "gpu" ? "cuda" : platform;
}

nn::ModelOptions model_options(const Settings& settings) {
  const std::string& dtype = settings.text("jax.compute_dtype");
  check(dtype == "float32" || dtype == "bfloat16",
        "[settings] `jax.compute_dtype` is {} but must be float32 or bfloat16", dtype);
  nn::ModelOptions out;
  out.activations_dtype = dtype == "float32" ? DType::F32 : DType::BF16;
  return out;
}

Device open_device(const Settings& settings) {
  runtime::ClientSpec spec{.hardware = platform_of(settings)};
  if (const int64_t mocked = settings.whole("jax.mock_devices"); mocked > 0) {
    check(spec.hardware == "cpu",
          "[settings] `jax.mock_devices` is {}, which are devices of the CPU, but `jax.platform` "
          "is {}",
          mocked, settings.text("jax.platform"));
    spec.cpu_devices = mocked;
  }
  if (spec.hardware == "cuda" && !settings.flag("jax.prealloc")) {
    spec.options["preallocate"] = false;
  }
  flags::Platform platform;
  platform.backend = spec.hardware == "cuda"  ? flags::Backend::GPU
                     : spec.hardware == "tpu" ? flags::Backend::TPU
                                              : flags::Backend::CPU;
  platform.version = flags::plugin_version(runtime::find_plugin(spec));
  CompilerFlags flags = compiler_flags(settings, platform);
  Device out{.client = runtime::open_client(spec),
             .program = {},
             .model = model_options(settings),
             .flags = std::move(flags)};
  out.program.executable_cache = runtime::cache_folder() + "/programs";
  out.program.compile.flags = out.flags.options;
  out.program.jit = settings.flag("jax.jit");
  return out;
}

mesh::Placement train_placement(const Settings& settings, std::span<const mesh::Device> devices) {
  const std::array<int64_t, 3> sizes = mesh_sizes(settings.text(kMeshKey));
  // A mesh's messages name its own keys, and there are three numbers here.
  int64_t given = 1;
  int64_t open = 0;
  for (const int64_t size : sizes) {
    check(size > 0 || size == -1, "[settings] `{}` has the size {}, expected 1 or more, or -1",
          kMeshKey, size);
    open += size == -1 ? 1 : 0;
    given *= size == -1 ? 1 : size;
  }
  const auto count = std::ssize(devices);
  check(open == 0 ? given == count : open == 1 && count % given == 0,
        "[settings] `{}` is {}, which does not make {} devices (jax.train_devices)", kMeshKey,
        settings.text(kMeshKey), count);
  mesh::Settings mesh;
  mesh.ici_data_parallelism = sizes[0];
  mesh.ici_fsdp_parallelism = sizes[1];
  mesh.ici_context_parallelism = 1;
  mesh.dcn_context_parallelism = 1;
  mesh::Placement out(mesh::make_mesh(mesh, devices),
                      mesh::AxisRules({{.logical = kSequences, .mesh_axes = {"data", "fsdp"}},
                                       {.logical = kSharded, .mesh_axes = {"fsdp"}}}));
  const int64_t rows = settings.whole("batch_size");
  check(rows % count == 0,
        "[settings] {} sequences (batch_size) do not divide over {} devices\n  batch_size={} would",
        rows, count, (rows / count + 1) * count);
  check(!out.active() || settings.flag("jax.jit"),
        "[settings] jax.jit=false needs one device, but {} train (jax.train_devices)", count);
  return out;
}

void split_over(const mesh::Placement& place, const std::string& platform,
                runtime::ProgramOptions& program) {
  if (!place.active()) {
    return;
  }
  program.emit.mesh = place.mesh().axes;
  program.compile.partitions = place.mesh().devices();
  program.compile.device_ids = place.mesh().device_ids;
  if (platform == "cpu") {
    // The newer generator ends the process with the partitioner's gathers of bins.
    program.compile.flags.emplace("xla_cpu_use_fusion_emitters", false);
  }
}

runtime::Devices train_devices(const Settings& settings, const pjrt::Client& client) {
  const std::vector<int64_t> places = settings.wholes("jax.train_devices");
  const std::vector<pjrt::Device>& all = client.addressable_devices();
  const auto count = std::ssize(all);
  check(!places.empty() && std::set(places.begin(), places.end()).size() == places.size(),
        "[settings] `jax.train_devices` must be one or more different numbers");
  std::vector<mesh::Device> devices;
  for (const int64_t place : places) {
    check(place >= 0 && place < count,
          "[settings] `jax.train_devices` has {}, but there are {} devices, from 0 on{}", place,
          count, settings.text("jax.platform") == "cpu" ? ": jax.mock_devices makes more" : "");
    devices.push_back({.id = all[static_cast<size_t>(place)].description().id});
  }
  check(places.size() > 1 || places[0] == 0,
        "[settings] `jax.train_devices` is {}, but a single device must be the first, 0",
        places[0]);
  return {client, train_placement(settings, devices)};
}

}  // namespace kinema::agents
