#include "kinema/runtime/program.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>

#include "kinema/core/error.h"
#include "kinema/core/stopwatch.h"
#include "kinema/kernels/kernel_set.h"
#include "kinema/runtime/client.h"
#include "kinema/runtime/compilation_watch.h"
#include "kinema/runtime/emit_for.h"
#include "kinema/runtime/environment.h"
#include "kinema/runtime/executable_cache.h"
#include "kinema/runtime/executable_file.h"
#include "kinema/runtime/pieces.h"
#include "kinema/runtime/thread_limit.h"

namespace kinema::runtime {
namespace {

int64_t axis_size(const MeshAxes& mesh, const std::string& name) {
  for (const auto& [axis, size] : mesh.axes) {
    if (axis == name) return size;
  }
  fail("[program] a sharding names the mesh axis `{}`, which the mesh does not have", name);
}

// The part of `shape` on one device; Shardy pads the last shard, so sizes are rounded up.
Shape shard_of(Shape shape, const Sharding& sharding, const MeshAxes& mesh) {
  if (mesh.axes.empty()) return shape;
  for (size_t d = 0; d < sharding.dims.size(); ++d) {
    int64_t parts = 1;
    for (const std::string& axis : sharding.dims[d]) parts *= axis_size(mesh, axis);
    shape.dims[d] = (shape.dims[d] + parts - 1) / parts;
  }
  return shape;
}

std::vector<Port> input_ports(const Graph& graph, const MeshAxes& mesh) {
  std::vector<Port> ports;
  for (const Tensor& x : graph.inputs()) {
    const auto& attrs = std::any_cast<const InputAttrs&>(x.node().attrs);
    ports.push_back({attrs.name, x.shape(), shard_of(x.shape(), attrs.sharding, mesh),
                     attrs.sharding, attrs.memory});
  }
  return ports;
}

std::vector<Port> output_ports(std::span<const Tensor> outputs, const ProgramOptions& options) {
  const auto& shardings = options.emit.output_shardings;
  std::vector<Port> ports;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Shape& shape = outputs[i].shape();
    const Sharding sharding = i < shardings.size() ? shardings[i] : Sharding();
    ports.push_back({i < options.output_names.size() ? options.output_names[i] : "", shape,
                     shard_of(shape, sharding, options.emit.mesh), sharding});
  }
  return ports;
}

void write_dump(const ProgramOptions& options, const char* suffix, const std::string& text) {
  const std::filesystem::path path = std::filesystem::path(options.dump) / (options.name + suffix);
  std::error_code error;
  std::filesystem::create_directories(options.dump, error);
  std::ofstream file(path, std::ios::binary);
  file << text;
  check(static_cast<bool>(file.flush()), "[program] the dump `{}` cannot be written",
        path.string());
}

/// With several processes: nothing unless each has its entry.
std::optional<pjrt::Executable> load_cached(const pjrt::Client& client,
                                            const ExecutableCache& cache, const std::string& key,
                                            bool is_multi_process) {
  const std::optional<std::string> stored = cache.find(key);
  if (is_multi_process) {
    return client.load_multi_process(stored);
  }
  try {
    return stored ? std::optional(client.load(*stored)) : std::nullopt;
  } catch (const Error&) {
    cache.drop(key);  // valid bytes that this plugin does not accept
    return std::nullopt;
  }
}

pjrt::Executable build(const pjrt::Client& client, const std::string& text,
                       const ProgramOptions& options, ProgramReport& report) {
  const std::shared_ptr<void> watched = watch_compilation(options.name);
  const Stopwatch watch;
  kernels::Target target = target_of(client);
  target.mesh = options.emit.mesh;
  const pjrt::CompileOptions compile_options =
      kernels::for_target(target, {.use = false}).with_flags(options.compile);
  if (!options.saved.empty()) {
    check(!client.is_multi_process(compile_options) || client.process_count() == 1,
          "[program] {} is a program of one process, but {} share the devices", options.saved,
          client.process_count());
    const std::string stored = read_saved_program(options.saved, text, options.name);
    try {
      pjrt::Executable loaded = client.load(stored);
      report.from_cache = true;
      report.compile_seconds = watch.seconds();
      return loaded;
    } catch (const Error& error) {
      fail("[program] {} was compiled by another compiler than this plugin accepts: {}",
           options.saved, error.what());
    }
  }
  std::optional<ExecutableCache> cache;
  std::string key;
  if (!options.executable_cache.empty()) {
    cache.emplace(options.executable_cache, options.executable_cache_bytes);
    key = ExecutableCache::key(client, text, compile_options.serialize());
    if (std::optional<pjrt::Executable> loaded =
            load_cached(client, *cache, key, client.is_multi_process(compile_options))) {
      report.from_cache = true;
      report.compile_seconds = watch.seconds();
      return *std::move(loaded);
    }
  }
  check_thread_limit();
  pjrt::Executable compiled = client.compile(text, compile_options);
  // A compiler leaves a hundred megabytes of small free blocks, which would stay resident for the
  // whole run.
  release_free_memory();
  report.compile_seconds = watch.seconds();
  if (cache) {
    try {
      cache->put(key, compiled.serialize());
    } catch (const Error&) {
      // Plugins without serialization compile every time.
    }
  }
  return compiled;
}

std::string label(size_t index, const Port& port) {
  return port.name.empty() ? fmt::format("argument {}", index)
                           : fmt::format("argument {} (`{}`)", index, port.name);
}

}  // namespace

Program::Program(const pjrt::Client& client, std::optional<pjrt::Executable> executable,
                 std::vector<Port> inputs, std::vector<Port> outputs, std::string name,
                 ProgramReport report)
    : client_(client),
      executable_(std::move(executable)),
      inputs_(std::move(inputs)),
      outputs_(std::move(outputs)),
      name_(std::move(name)),
      report_(std::move(report)) {}

Program Program::compile(const pjrt::Client& client, const Graph& graph,
                         std::span<const Tensor> outputs, const ProgramOptions& options) {
  if (!options.jit) {
    auto pieces = std::make_shared<const Pieces>(client, graph, outputs, options);
    Program program(client, std::nullopt, input_ports(graph, {}), output_ports(outputs, options),
                    options.name, pieces->report());
    program.pieces_ = std::move(pieces);
    return program;
  }
  const Stopwatch watch;
  const std::string written = text(client, graph, outputs, options);
  const double emit_seconds = watch.seconds();
  Program program = compile_text(client, written, input_ports(graph, options.emit.mesh),
                                 output_ports(outputs, options), options);
  program.report_.emit_seconds = emit_seconds;
  return program;
}

std::string Program::text(const pjrt::Client& client, const Graph& graph,
                          std::span<const Tensor> outputs, const ProgramOptions& options) {
  Emitted emitted = emit_for(target_of(client), graph, outputs, options);
  emitted.kernels.register_with(client.plugin());
  if (!options.dump.empty()) {
    kernels::write_kernel_texts(options.dump, emitted.kernel_texts);
  }
  return std::move(emitted.text);
}

Program Program::compile_text(const pjrt::Client& client, const std::string& text,
                              std::vector<Port> inputs, std::vector<Port> outputs,
                              const ProgramOptions& options) {
  if (!options.dump.empty()) write_dump(options, ".mlir", text);
  ProgramReport report;
  report.text_bytes = static_cast<int64_t>(text.size());
  pjrt::Executable executable = build(client, text, options, report);
  report.memory = executable.memory();
  report.cost = executable.cost();
  if (!options.dump.empty()) write_dump(options, ".hlo.txt", executable.optimized_text());
  return Program(client, std::move(executable), std::move(inputs), std::move(outputs), options.name,
                 std::move(report));
}

const pjrt::Executable& Program::executable() const {
  check(executable_.has_value(), "[{}] runs in pieces (jit is false): no one executable", name_);
  return *executable_;
}

std::vector<int64_t> Program::device_ids() const {
  return pieces_ ? pieces_->device_ids() : executable_->device_ids();
}

void Program::check_arguments(std::span<const pjrt::Buffer* const> arguments) const {
  check(arguments.size() == inputs_.size(), "[{}] {} arguments given but the program takes {}",
        name_, arguments.size(), inputs_.size());
  for (size_t i = 0; i < arguments.size(); ++i) {
    const pjrt::Buffer* given = arguments[i];
    check(given != nullptr && *given, "[{}] {} is missing: the program takes {}", name_,
          label(i, inputs_[i]), to_string(inputs_[i].shard));
    check(!given->is_deleted(), "[{}] {} was donated to an earlier run or dropped", name_,
          label(i, inputs_[i]));
    const Shape shape = given->shape();
    check(shape == inputs_[i].shard, "[{}] {} is {} but the program takes {}", name_,
          label(i, inputs_[i]), to_string(shape), to_string(inputs_[i].shard));
  }
}

std::vector<pjrt::Buffer> Program::run(std::span<const pjrt::Buffer* const> arguments) const {
  check_arguments(arguments);
  return pieces_ ? pieces_->run(arguments) : executable_->execute(arguments);
}

std::vector<pjrt::Buffer> Program::run(std::span<const pjrt::Buffer> arguments) const {
  std::vector<const pjrt::Buffer*> pointers;
  pointers.reserve(arguments.size());
  for (const pjrt::Buffer& buffer : arguments) pointers.push_back(&buffer);
  return run(pointers);
}

std::vector<HostArray> Program::run_on_host(std::span<const HostArray> arguments) const {
  const std::vector<int64_t> ids = device_ids();
  check(ids.size() == 1, "[{}] runs on {} devices; run_on_host is for one", name_, ids.size());
  const pjrt::Device device = client_.device(ids.front());
  std::vector<pjrt::Buffer> buffers;
  for (const HostArray& array : arguments) buffers.push_back(client_.to_device(array, device));
  std::vector<HostArray> out;
  for (const pjrt::Buffer& result : run(buffers)) out.push_back(result.to_host());
  return out;
}

std::vector<std::vector<pjrt::Buffer>> Program::run_all(
    std::span<const std::vector<const pjrt::Buffer*>> arguments) const {
  for (const auto& on_device : arguments) check_arguments(on_device);
  if (!pieces_) return executable_->execute_all(arguments);
  check(arguments.size() == 1, "[{}] runs in pieces on one device, not on {}", name_,
        arguments.size());
  std::vector<std::vector<pjrt::Buffer>> out;
  out.push_back(pieces_->run(arguments.front()));
  return out;
}

std::vector<Array> Program::run(const Devices& devices,
                                std::span<const Array* const> arguments) const {
  // The plugin's lists are in the order of its devices, arrays in that of the mesh.
  const std::vector<int64_t> ids = device_ids();
  check(ids.size() == devices.count(), "[{}] runs on {} devices but is given arrays on {}", name_,
        ids.size(), devices.count());
  std::vector<size_t> place(ids.size());
  for (size_t d = 0; d < devices.count(); ++d) {
    const auto found = std::ranges::find(ids, devices[d].id());
    check(found != ids.end(), "[{}] was not compiled for device {}", name_, devices[d].id());
    place[d] = static_cast<size_t>(found - ids.begin());
  }
  std::vector<std::vector<const pjrt::Buffer*>> lists(ids.size());
  for (size_t i = 0; i < arguments.size(); ++i) {
    const Array* array = arguments[i];
    check(array != nullptr && array->shards().size() == ids.size(),
          "[{}] argument {} is on {} devices but the program runs on {}", name_, i,
          array == nullptr ? 0 : array->shards().size(), ids.size());
    for (size_t d = 0; d < ids.size(); ++d) {
      lists[place[d]].push_back(&array->shards()[d]);
    }
  }
  std::vector<std::vector<pjrt::Buffer>> results = run_all(lists);
  std::vector<Array> out;
  for (size_t i = 0; i < outputs_.size(); ++i) {
    std::vector<pjrt::Buffer> shards;
    for (size_t d = 0; d < ids.size(); ++d) {
      shards.push_back(std::move(results[place[d]][i]));
    }
    out.emplace_back(outputs_[i].shape,
                     devices.blocks(outputs_[i].sharding, outputs_[i].shape.dims),
                     std::move(shards));
  }
  return out;
}

void split_over(const Devices& devices, ProgramOptions& options) {
  if (!devices.placement().active()) {
    return;
  }
  const mesh::Mesh& mesh = devices.placement().mesh();
  options.emit.mesh = mesh.axes;
  options.compile.partitions = mesh.devices();
  options.compile.device_ids = mesh.device_ids;
}

std::vector<HostArray> evaluate(const pjrt::Client& client, const Graph& graph,
                                std::span<const Tensor> outputs,
                                std::span<const HostArray> arguments) {
  return Program::compile(client, graph, outputs).run_on_host(arguments);
}

}  // namespace kinema::runtime
