#include "kinema/pjrt/client.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "kinema/pjrt/api.h"
#include "kinema/pjrt/client_handle.h"
#include "kinema/pjrt/element_type.h"
#include "kinema/pjrt/host_layout.h"
#include "kinema/pjrt/multi_process_executable.h"
#include "kinema/pjrt/named_values.h"
#include "kinema/pjrt/transfers.h"

namespace kinema::pjrt {
namespace {

// `done` is destroyed when the plugin no longer reads the host memory.
Buffer start_upload(const std::shared_ptr<const ClientHandle>& handle,
                    std::span<const std::byte> bytes, const Shape& shape, const Device& device,
                    MemoryKind memory, PJRT_HostBufferSemantics semantics, Event& done) {
  check(static_cast<int64_t>(bytes.size()) == shape.bytes(),
        "[pjrt] {} takes {} bytes but {} were given", to_string(shape), shape.bytes(),
        bytes.size());
  begin_transfer(Direction::TO_DEVICE, shape);
  std::optional<ByteTiles> tiles;
  if (has_byte_tiles(*handle, shape, memory)) {
    tiles.emplace(shape);
  }
  const auto reply = KINEMA_PJRT(
      *handle->api, Client_BufferFromHostBuffer, .client = handle->client, .data = bytes.data(),
      .type = to_pjrt(shape.dtype), .dims = shape.dims.data(), .num_dims = shape.dims.size(),
      .host_buffer_semantics = semantics, .device = device.handle(),
      .memory = memory == MemoryKind::DEVICE ? nullptr : device.memory_of(memory),
      .device_layout = tiles ? tiles->layout() : nullptr);
  done = Event(handle->api, reply.done_with_host_buffer);
  return {handle, reply.buffer};
}

}  // namespace

Client::Client(const Plugin& plugin, const NamedValues& options, const Processes& device_partition,
               KeyValues key_values)
    : device_partition_(device_partition) {
  const PJRT_Api& api = plugin.api();
  const NamedValues checked = checked_options(options);
  const std::vector<PJRT_NamedValue> values = to_named_values(checked);
  PJRT_Client_Create_Args create{.create_options = values.data(), .num_options = values.size()};
  std::unique_ptr<KeyValueCalls> calls;
  if (key_values) {
    calls = std::make_unique<KeyValueCalls>(std::move(key_values));
    calls->add_to(create);
  }
  const auto created = call<&PJRT_Api::PJRT_Client_Create>(
      api, "PJRT_Client_Create", offsetof(PJRT_Api, PJRT_Client_Create),
      PJRT_Client_Create_Args_STRUCT_SIZE, create);
  handle_ = std::make_shared<const ClientHandle>(&plugin, &api, created.client, std::move(calls));

  const auto all = KINEMA_PJRT(api, Client_Devices, .client = created.client);
  if (device_partition.count > 1) {
    const auto count = static_cast<int64_t>(all.num_devices);
    check(count % device_partition.count == 0,
          "[pjrt] {} devices cannot be dealt out to {} processes", count, device_partition.count);
    for (int64_t i = 0; i < count; ++i) {
      devices_.emplace_back(&api, all.devices[i], i / (count / device_partition.count));
      if (devices_.back().description().process_index == device_partition.index) {
        addressable_.push_back(devices_.back());
      }
    }
    return;
  }
  for (size_t i = 0; i < all.num_devices; ++i) devices_.emplace_back(&api, all.devices[i]);
  const auto mine = KINEMA_PJRT(api, Client_AddressableDevices, .client = created.client);
  for (size_t i = 0; i < mine.num_addressable_devices; ++i) {
    addressable_.emplace_back(&api, mine.addressable_devices[i]);
  }
  check(!addressable_.empty(), "[pjrt] `{}` offers no device to this process", plugin.path());
}

const Plugin& Client::plugin() const { return *handle_->plugin; }

std::string Client::platform_name() const {
  const auto reply = KINEMA_PJRT(*handle_->api, Client_PlatformName, .client = handle_->client);
  return std::string(view(reply.platform_name, reply.platform_name_size));
}

std::string Client::platform_version() const {
  const auto reply = KINEMA_PJRT(*handle_->api, Client_PlatformVersion, .client = handle_->client);
  return std::string(view(reply.platform_version, reply.platform_version_size));
}

int64_t Client::process_index() const {
  return device_partition_.count > 1
             ? device_partition_.index
             : KINEMA_PJRT(*handle_->api, Client_ProcessIndex, .client = handle_->client)
                   .process_index;
}

Device Client::device(int64_t id) const {
  std::string ids;
  for (const Device& device : devices_) {
    const int64_t other = device.id();
    if (other == id) return device;
    ids += fmt::format("{}{}", ids.empty() ? "" : ", ", other);
  }
  fail("[pjrt] there is no device {}: the ids are {}", id, ids);
}

Buffer Client::to_device(std::span<const std::byte> bytes, const Shape& shape) const {
  return to_device(bytes, shape, addressable_.front());
}

Buffer Client::to_device(std::span<const std::byte> bytes, const Shape& shape, Device device,
                         MemoryKind memory) const {
  Event done;
  Buffer buffer = start_upload(handle_, bytes, shape, device, memory,
                               PJRT_HostBufferSemantics_kImmutableOnlyDuringCall, done);
  done.await();
  return buffer;
}

Buffer Client::to_device(const HostArray& array) const {
  return to_device(array, addressable_.front());
}

Buffer Client::to_device(const HostArray& array, Device device) const {
  return to_device(std::span<const std::byte>(array.bytes), array.shape, device);
}

Buffer Client::to_device(HostArray&& array) const {
  return to_device(std::move(array), addressable_.front());
}

Buffer Client::to_device(HostArray&& array, Device device, MemoryKind memory) const {
  // Shared, because std::function requires a copyable callable.
  const auto held = std::make_shared<HostArray>(std::move(array));
  Event done;
  Buffer buffer = start_upload(handle_, held->bytes, held->shape, device, memory,
                               PJRT_HostBufferSemantics_kImmutableUntilTransferCompletes, done);
  done.on_ready([held](const std::string&) {});
  return buffer;
}

int64_t Client::process_count() const {
  std::set<int64_t> all;
  for (const Device& device : devices_) {
    all.insert(device.description().process_index);
  }
  return std::ssize(all);
}

bool Client::is_multi_process(const CompileOptions& options) const {
  const auto is_other = [&](int64_t id) {
    return std::ranges::find(addressable_, id, &Device::id) == addressable_.end();
  };
  return device_partition_.across &&
         (device_partition_.count > 1 ? std::ranges::any_of(options.device_ids, is_other)
                                      : options.partitions > 1 && !options.device_ids.empty());
}

Executable Client::compile(std::string_view program, const CompileOptions& options) const {
  if (is_multi_process(options)) {
    return device_partition_.across->compile(*this, program, options);
  }
  CompileOptions own = options;
  if (device_partition_.count > 1 && own.device_ids.empty() && own.partitions * own.replicas == 1) {
    own.device_ids.push_back(addressable_.front().id());  // not the plugin's first device
  }
  return compile(program, "mlir", own);
}

Executable Client::compile_partitioned(std::string_view hlo, CompileOptions options) const {
  options.partitions = std::ssize(options.device_ids);
  options.backend_only = true;
  options.shardy = false;
  return compile(hlo, "hlo", options);
}

Executable Client::compile(std::string_view program, std::string_view format,
                           const CompileOptions& options) const {
  const std::string serialized = options.serialize();
  std::string code(program);  // PJRT_Program is in/out and requires writable memory
  const PJRT_Program source{.struct_size = PJRT_Program_STRUCT_SIZE,
                            .code = code.data(),
                            .code_size = code.size(),
                            .format = format.data(),
                            .format_size = format.size()};
  const auto reply =
      KINEMA_PJRT(*handle_->api, Client_Compile, .client = handle_->client, .program = &source,
                  .compile_options = serialized.data(), .compile_options_size = serialized.size());
  return {handle_, reply.executable};
}

Executable Client::load(std::string_view serialized) const {
  if (device_partition_.across && device_partition_.count == 1 &&
      unpack_multi_process(serialized)) {
    std::optional<Executable> loaded = load_multi_process(std::string(serialized));
    check(loaded.has_value(), "[pjrt] the plugin does not take a program that was kept");
    return *std::move(loaded);
  }
  return load_local(serialized);
}

std::optional<Executable> Client::load_multi_process(
    const std::optional<std::string>& serialized) const {
  return device_partition_.across->load(*this, serialized);
}

Executable Client::load_local(std::string_view serialized) const {
  const auto reply = KINEMA_PJRT(
      *handle_->api, Executable_DeserializeAndLoad, .client = handle_->client,
      .serialized_executable = serialized.data(), .serialized_executable_size = serialized.size());
  return {handle_, reply.loaded_executable};
}

}  // namespace kinema::pjrt
