#include "kinema/pjrt/executable.h"

#include <utility>

#include "kinema/pjrt/api.h"
#include "kinema/pjrt/client_handle.h"
#include "kinema/pjrt/compiled_hlo.h"
#include "kinema/pjrt/device.h"
#include "kinema/pjrt/element_type.h"
#include "kinema/pjrt/multi_process_executable.h"

namespace kinema::pjrt {
namespace {

PJRT_Executable* compiled_part(const PJRT_Api& api, PJRT_LoadedExecutable* loaded) {
  return KINEMA_PJRT(api, LoadedExecutable_GetExecutable, .loaded_executable = loaded).executable;
}

}  // namespace

Compiled::Compiled(const PJRT_Api* api, PJRT_Executable* executable)
    : api_(api), executable_(executable) {}

Compiled::Compiled(Compiled&& other) noexcept
    : api_(other.api_), executable_(std::exchange(other.executable_, nullptr)) {}

Compiled& Compiled::operator=(Compiled&& other) noexcept {
  std::swap(api_, other.api_);
  std::swap(executable_, other.executable_);
  return *this;
}

Compiled::~Compiled() {
  if (executable_ == nullptr) return;
  ignoring_errors([&] { KINEMA_PJRT(*api_, Executable_Destroy, .executable = executable_); });
}

std::string Compiled::name() const {
  const auto reply = KINEMA_PJRT(*api_, Executable_Name, .executable = executable_);
  return std::string(view(reply.executable_name, reply.executable_name_size));
}

int64_t Compiled::output_count() const {
  return static_cast<int64_t>(
      KINEMA_PJRT(*api_, Executable_NumOutputs, .executable = executable_).num_outputs);
}

std::vector<Shape> Compiled::output_shapes() const {
  const auto types = KINEMA_PJRT(*api_, Executable_OutputElementTypes, .executable = executable_);
  const auto dims = KINEMA_PJRT(*api_, Executable_OutputDimensions, .executable = executable_);
  check(types.num_output_types == dims.num_outputs,
        "[pjrt] the plugin gives {} output types and {} output shapes", types.num_output_types,
        dims.num_outputs);
  std::vector<Shape> shapes;
  const int64_t* next = dims.dims;
  for (size_t i = 0; i < dims.num_outputs; ++i) {
    shapes.push_back({from_pjrt(types.output_types[i]), Dims(next, next + dims.dim_sizes[i])});
    next += dims.dim_sizes[i];
  }
  return shapes;
}

CompiledMemory Compiled::memory() const {
  const auto stats =
      KINEMA_PJRT(*api_, Executable_GetCompiledMemoryStats, .executable = executable_);
  return {.code = stats.generated_code_size_in_bytes,
          .arguments = stats.argument_size_in_bytes,
          .outputs = stats.output_size_in_bytes,
          .aliased = stats.alias_size_in_bytes,
          .temporary = stats.temp_size_in_bytes,
          .host_arguments = stats.host_argument_size_in_bytes,
          .host_outputs = stats.host_output_size_in_bytes,
          .host_temporary = stats.host_temp_size_in_bytes,
          .peak = stats.peak_memory_in_bytes};
}

NamedValues Compiled::cost() const {
  try {
    const auto reply = KINEMA_PJRT(*api_, Executable_GetCostAnalysis, .executable = executable_);
    return read_named_values(reply.properties, reply.num_properties);
  } catch (const Error&) {
    return {};  // optional in PJRT
  }
}

int64_t Compiled::code_bytes() const {
  return KINEMA_PJRT(*api_, Executable_SizeOfGeneratedCodeInBytes, .executable = executable_)
      .size_in_bytes;
}

OptimizedProgram Compiled::optimized() const {
  // Called twice: for the size, then for the bytes.
  PJRT_Program program{.struct_size = PJRT_Program_STRUCT_SIZE};
  KINEMA_PJRT(*api_, Executable_OptimizedProgram, .executable = executable_, .program = &program);
  OptimizedProgram out;
  out.bytes.resize(program.code_size);
  program.code = out.bytes.data();
  KINEMA_PJRT(*api_, Executable_OptimizedProgram, .executable = executable_, .program = &program);
  out.format = view(program.format, program.format_size);
  return out;
}

std::string Compiled::optimized_text() const { return hlo_text(optimized()); }

std::string Compiled::fingerprint() const {
  try {
    const auto reply = KINEMA_PJRT(*api_, Executable_Fingerprint, .executable = executable_);
    return std::string(view(reply.executable_fingerprint, reply.executable_fingerprint_size));
  } catch (const Error&) {
    return "";  // optional in PJRT
  }
}

std::string Compiled::serialize() const {
  const auto reply = KINEMA_PJRT(*api_, Executable_Serialize, .executable = executable_);
  std::string bytes(view(reply.serialized_bytes, reply.serialized_bytes_size));
  if (reply.serialized_executable_deleter != nullptr) {
    reply.serialized_executable_deleter(reply.serialized_executable);
  }
  return bytes;
}

Executable::Executable(std::shared_ptr<const ClientHandle> client,
                       PJRT_LoadedExecutable* executable)
    : Compiled(client->api, compiled_part(*client->api, executable)),
      client_(std::move(client)),
      loaded_(executable),
      outputs_(output_count()) {}

Executable::Executable(Executable&& other) noexcept
    : Compiled(std::move(other)),
      client_(std::move(other.client_)),
      loaded_(std::exchange(other.loaded_, nullptr)),
      across_(std::move(other.across_)),
      outputs_(other.outputs_) {}

Executable& Executable::operator=(Executable&& other) noexcept {
  if (this == &other) return *this;
  destroy();
  Compiled::operator=(std::move(other));
  // NOLINTNEXTLINE(bugprone-use-after-move): the base took its own part only
  client_.swap(other.client_);
  loaded_ = std::exchange(other.loaded_, nullptr);
  across_ = std::move(other.across_);
  outputs_ = other.outputs_;
  return *this;
}

Executable::~Executable() { destroy(); }

void Executable::destroy() noexcept {
  if (loaded_ == nullptr) return;
  ignoring_errors(
      [&] { KINEMA_PJRT(*client_->api, LoadedExecutable_Destroy, .executable = loaded_); });
  loaded_ = nullptr;
}

OptimizedProgram Executable::optimized() const {
  return across_ ? across_->program().optimized : Compiled::optimized();
}

std::string Executable::serialize() const {
  return across_ ? pack_multi_process(across_->program(), Compiled::serialize())
                 : Compiled::serialize();
}

std::vector<int64_t> Executable::device_ids() const {
  const auto reply =
      KINEMA_PJRT(*client_->api, LoadedExecutable_AddressableDevices, .executable = loaded_);
  std::vector<int64_t> ids;
  for (size_t i = 0; i < reply.num_addressable_devices; ++i) {
    ids.push_back(Device(client_->api, reply.addressable_devices[i]).id());
  }
  return ids;
}

std::vector<Buffer> Executable::execute(std::span<const Buffer* const> arguments,
                                        const ExecuteOptions& options) const {
  const std::vector<const Buffer*> one(arguments.begin(), arguments.end());
  return std::move(execute_all({&one, 1}, options).front());
}

std::vector<std::vector<Buffer>> Executable::execute_all(
    std::span<const std::vector<const Buffer*>> arguments, const ExecuteOptions& options) const {
  check(!arguments.empty(), "[pjrt] a run needs the arguments of at least one device");
  const size_t devices = arguments.size();
  const size_t count = arguments.front().size();
  std::vector<std::vector<PJRT_Buffer*>> given(devices);
  std::vector<std::vector<PJRT_Buffer*>> results(devices);
  std::vector<PJRT_Buffer* const*> given_lists(devices);
  std::vector<PJRT_Buffer**> result_lists(devices);
  for (size_t d = 0; d < devices; ++d) {
    check(arguments[d].size() == count, "[pjrt] device {} is given {} arguments but device 0 {}", d,
          arguments[d].size(), count);
    for (size_t i = 0; i < count; ++i) {
      const Buffer* buffer = arguments[d][i];
      check(buffer != nullptr && !buffer->is_deleted(),
            "[pjrt] argument {} is empty, or was donated or dropped before", i);
      given[d].push_back(buffer->handle());
    }
    results[d].resize(static_cast<size_t>(outputs_), nullptr);
    given_lists[d] = given[d].data();
    result_lists[d] = results[d].data();
  }
  PJRT_ExecuteOptions how{.struct_size = PJRT_ExecuteOptions_STRUCT_SIZE,
                          .non_donatable_input_indices = options.keep.data(),
                          .num_non_donatable_input_indices = options.keep.size()};
  if (across_) {
    across_->begin();
  }
  KINEMA_PJRT(*client_->api, LoadedExecutable_Execute, .executable = loaded_, .options = &how,
              .argument_lists = given_lists.data(), .num_devices = devices, .num_args = count,
              .output_lists = result_lists.data());

  std::vector<std::vector<Buffer>> out(devices);
  for (size_t d = 0; d < devices; ++d) {
    for (PJRT_Buffer* result : results[d]) out[d].emplace_back(client_, result);
  }
  if (across_) {
    std::vector<Event> done;
    for (const std::vector<Buffer>& each : out) {
      if (!each.empty()) {
        done.push_back(each.front().ready());
      }
    }
    across_->started(std::move(done));
  }
  return out;
}

}  // namespace kinema::pjrt
