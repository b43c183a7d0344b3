#include "kinema/planning/compile_job.h"

#include <fmt/format.h>

#include <cstdlib>
#include <memory>

#include "kinema/core/error.h"
#include "kinema/core/stopwatch.h"
#include "kinema/io/atomic_write.h"
#include "kinema/io/json.h"
#include "kinema/io/temporary_folder.h"
#include "kinema/kernels/kernel_set.h"
#include "kinema/pjrt/client.h"
#include "kinema/pjrt/topology.h"
#include "kinema/planning/child_process.h"
#include "kinema/planning/child_text.h"
#include "kinema/planning/compiler_error.h"
#include "kinema/runtime/client.h"
#include "kinema/runtime/environment.h"
#include "kinema/runtime/executable_file.h"

namespace kinema::planning {
namespace {

namespace fs = std::filesystem;

io::Json flag_json(const pjrt::FlagValue& value) {
  return std::visit([](const auto& v) { return io::Json(v); }, value);
}

pjrt::FlagValue read_flag(const io::Json& value) {
  switch (value.kind()) {
    case io::Json::Kind::Bool:
      return value.as_bool();
    case io::Json::Kind::Integer:
      return value.as_int();
    case io::Json::Kind::Number:
      return value.as_number();
    default:
      return value.as_string();
  }
}

io::Json job_json(const CompileJob& job) {
  io::Json flags = io::Json::object();
  for (const auto& [name, value] : job.options.flags) {
    flags.set(name, flag_json(value));
  }
  io::Json environment = io::Json::object();
  for (const auto& [name, value] : job.environment) {
    environment.set(name, value);
  }
  const std::vector<int64_t>& devices = job.options.device_ids;
  std::vector<io::Json> ids(devices.begin(), devices.end());
  return io::Json::object()
      .set("target", job.target.name)
      .set("plugin", job.plugin)
      .set("partitions", job.options.partitions)
      .set("shardy", job.options.shardy)
      .set("optimization_level", job.options.optimization_level)
      .set("optimization_effort", job.options.optimization_effort)
      .set("device_ids", io::Json::array(std::move(ids)))
      .set("flags", std::move(flags))
      .set("environment", std::move(environment))
      .set("kernels", job.kernels)
      .set("save_executable", job.save_executable)
      .set("dump", job.dump);
}

CompileJob read_job(const fs::path& folder) {
  const io::Json json = io::Json::read(folder / "job.json");
  CompileJob job;
  job.target = parse_target(json.at("target").as_string());
  job.plugin = json.at("plugin").as_string();
  job.options.partitions = json.at("partitions").as_int();
  job.options.shardy = json.at("shardy").as_bool();
  job.options.optimization_level = json.at("optimization_level").as_int();
  job.options.optimization_effort = json.at("optimization_effort").as_number();
  job.options.device_ids = json.at("device_ids").as_ints();
  for (const auto& [name, value] : json.at("flags").members()) {
    job.options.flags[name] = read_flag(value);
  }
  for (const auto& [name, value] : json.at("environment").members()) {
    job.environment[name] = value.as_string();
  }
  job.kernels = json.at("kernels").as_bool();
  job.save_executable = json.at("save_executable").as_string();
  job.dump = json.at("dump").as_string();
  job.program = child_text(folder / "program.mlir");
  return job;
}

io::Json traffic_json(const Traffic& traffic) {
  io::Json collectives = io::Json::object();
  for (const auto& [kind, sum] : traffic.collectives) {
    collectives.set(kind, io::Json::object()
                              .set("count", sum.count)
                              .set("bytes", sum.bytes)
                              .set("interconnect_bytes", sum.interconnect_bytes));
  }
  return io::Json::object()
      .set("collectives", std::move(collectives))
      .set("hbm_bytes", traffic.hbm_bytes)
      .set("host_bytes", traffic.host_bytes)
      .set("host_reads", traffic.host_reads)
      .set("unknown_loops", traffic.unknown_loops);
}

Traffic read_traffic(const io::Json& json) {
  Traffic out;
  for (const auto& [kind, sum] : json.at("collectives").members()) {
    out.collectives[kind] = {.count = sum.at("count").as_number(),
                             .bytes = sum.at("bytes").as_number(),
                             .interconnect_bytes = sum.at("interconnect_bytes").as_number()};
  }
  out.hbm_bytes = json.at("hbm_bytes").as_number();
  out.host_bytes = json.at("host_bytes").as_number();
  out.host_reads = json.at("host_reads").as_number();
  out.unknown_loops = json.at("unknown_loops").as_int();
  return out;
}

io::Json result_json(const CompileResult& result) {
  const pjrt::CompiledMemory& m = result.memory;
  return io::Json::object()
      .set("memory", io::Json::object()
                         .set("code", m.code)
                         .set("arguments", m.arguments)
                         .set("outputs", m.outputs)
                         .set("aliased", m.aliased)
                         .set("temporary", m.temporary)
                         .set("host_arguments", m.host_arguments)
                         .set("host_outputs", m.host_outputs)
                         .set("host_temporary", m.host_temporary)
                         .set("peak", m.peak))
      .set("memory_limit", result.memory_limit)
      .set("devices", result.devices)
      .set("traffic", traffic_json(result.traffic))
      .set("expected", to_json(result.expected))
      .set("overlap", to_json(result.overlap))
      .set("platform_version", result.platform_version)
      .set("fingerprint", result.fingerprint)
      .set("compile_seconds", result.compile_seconds)
      .set("peak_rss", result.peak_rss);
}

CompileResult read_result(const fs::path& path) {
  const io::Json json = io::Json::read(path);
  const io::Json& m = json.at("memory");
  CompileResult out;
  out.memory = {.code = m.at("code").as_int(),
                .arguments = m.at("arguments").as_int(),
                .outputs = m.at("outputs").as_int(),
                .aliased = m.at("aliased").as_int(),
                .temporary = m.at("temporary").as_int(),
                .host_arguments = m.at("host_arguments").as_int(),
                .host_outputs = m.at("host_outputs").as_int(),
                .host_temporary = m.at("host_temporary").as_int(),
                .peak = m.at("peak").as_int()};
  out.memory_limit = json.at("memory_limit").as_int();
  out.devices = json.at("devices").as_int();
  out.traffic = read_traffic(json.at("traffic"));
  out.expected = read_expected_time(json.at("expected"));
  out.overlap = read_overlap(json.at("overlap"));
  out.platform_version = json.at("platform_version").as_string();
  out.fingerprint = json.at("fingerprint").as_string();
  out.compile_seconds = json.at("compile_seconds").as_number();
  out.peak_rss = json.at("peak_rss").as_int();
  return out;
}

/// The compiled program, and the compiler's data about the devices.
struct Made {
  std::unique_ptr<pjrt::Compiled> program;
  int64_t memory_limit = 0;
  int64_t devices = 0;
  std::string platform_version;
  double seconds = 0;
};

int64_t attribute(const pjrt::NamedValues& values, const std::string& name) {
  const auto found = values.find(name);
  const auto* number = found == values.end() ? nullptr : std::get_if<int64_t>(&found->second);
  return number == nullptr ? 0 : *number;
}

Made compile_here(const CompileJob& job) {
  const Stopwatch watch;
  pjrt::Client client = runtime::open_client(
      {.plugin = job.plugin, .hardware = "cpu", .cpu_devices = job.target.devices});
  if (job.kernels) {
    kernels::for_target({.platform = job.target.platform()}).register_with(client.plugin());
  }
  Made made;
  made.program = std::make_unique<pjrt::Executable>(client.compile(job.program, job.options));
  made.devices = static_cast<int64_t>(client.devices().size());
  made.memory_limit = runtime::available_memory_bytes() / job.target.devices;
  made.platform_version = client.platform_version();
  made.seconds = watch.seconds();
  return made;
}

Made compile_for_topology(const CompileJob& job) {
  const pjrt::Plugin& plugin = pjrt::Plugin::load(job.plugin);
  const pjrt::Topology topology(plugin, job.target.topology_name(), job.target.topology_options());
  const std::vector<pjrt::DeviceDescription> devices = topology.devices();
  check(static_cast<int64_t>(devices.size()) == job.target.devices,
        "[plan] the compiler makes {} devices of {}, expected {}", devices.size(), job.target.name,
        job.target.devices);
  Made made;
  made.devices = static_cast<int64_t>(devices.size());
  made.memory_limit = attribute(topology.attributes(), "device_memory_bytes_limit");
  if (made.memory_limit == 0 && !devices.empty()) {
    made.memory_limit = attribute(devices.front().attributes, "device_memory_bytes_limit");
  }
  made.platform_version = topology.platform_version();
  const Stopwatch watch;
  made.program = std::make_unique<pjrt::Compiled>(topology.compile(job.program, job.options));
  made.seconds = watch.seconds();
  return made;
}

void compile_into(const fs::path& folder) {
  const CompileJob job = read_job(folder);
  for (const auto& [name, value] : job.target.environment()) {
    setenv(name.c_str(), value.c_str(), /*overwrite=*/1);
  }
  for (const auto& [name, value] : job.environment) {
    setenv(name.c_str(), value.c_str(), /*overwrite=*/1);
  }
  const Made made =
      job.target.chip.family == Family::CPU ? compile_here(job) : compile_for_topology(job);
  CompileResult result;
  result.memory = made.program->memory();
  result.memory_limit = made.memory_limit;
  result.devices = made.devices;
  const pjrt::HloModule optimized = pjrt::read_hlo(made.program->optimized());
  result.traffic = traffic(optimized);
  result.expected = expected_time(optimized, job.target.chip);
  result.overlap = overlap(optimized, job.target.chip);
  result.platform_version = made.platform_version;
  result.fingerprint = made.program->fingerprint();
  result.compile_seconds = made.seconds;
  if (!job.dump.empty()) {
    io::write_file(job.dump, made.program->optimized_text());
  }
  if (!job.save_executable.empty()) {
    check(runtime::write_executable(job.save_executable, runtime::program_key(job.program),
                                    made.program->serialize()),
          "[plan] save_executable {} cannot be written", job.save_executable);
  }
  result.peak_rss = runtime::peak_rss_bytes();
  io::write_file(folder / "result.json", result_json(result).dump());
}

}  // namespace

int run_compile_job(const fs::path& folder) {
  try {
    compile_into(folder);
    return 0;
  } catch (const Error& error) {
    io::write_file(folder / "error", error.what());
    return 1;
  }
}

CompileResult compile_in_child(const CompileJob& job, const fs::path& executable,
                               const std::stop_token& stop) {
  const io::TemporaryFolder folder("plan");
  io::write_file(folder.path() / "job.json", job_json(job).dump());
  io::write_file(folder.path() / "program.mlir", job.program);
  const ChildStatus status = run_child({.executable = executable,
                                        .arguments = {"compile-job", folder.path().string()},
                                        .log = folder.path() / "log",
                                        .memory_limit = job.memory_limit,
                                        .stop = stop});
  if (status.exit_code == 0 && fs::exists(folder.path() / "result.json")) {
    CompileResult result = read_result(folder.path() / "result.json");
    if (job.target.chip.name == "v4" && result.memory_limit > 0) {
      result.memory_limit /= job.target.chip.devices_per_chip;  // stated per chip
    }
    return result;
  }
  throw_failure(job.target, job.options, status, child_text(folder.path() / "error"),
                child_text(folder.path() / "log"));
}

}  // namespace kinema::planning
