#include "kinema/pjrt/buffer.h"

#include <utility>

#include "kinema/pjrt/api.h"
#include "kinema/pjrt/client_handle.h"
#include "kinema/pjrt/element_type.h"
#include "kinema/pjrt/transfers.h"

namespace kinema::pjrt {

Buffer::Buffer(std::shared_ptr<const ClientHandle> client, PJRT_Buffer* buffer)
    : client_(std::move(client)), buffer_(buffer) {}

Buffer::Buffer(Buffer&& other) noexcept
    : client_(std::move(other.client_)), buffer_(std::exchange(other.buffer_, nullptr)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this != &other) {
    destroy();
    client_ = std::move(other.client_);
    buffer_ = std::exchange(other.buffer_, nullptr);
  }
  return *this;
}

Buffer::~Buffer() { destroy(); }

void Buffer::destroy() noexcept {
  if (buffer_ == nullptr) return;
  ignoring_errors([&] { KINEMA_PJRT(*client_->api, Buffer_Destroy, .buffer = buffer_); });
  buffer_ = nullptr;
}

Shape Buffer::shape() const {
  check(buffer_ != nullptr, "[pjrt] an empty buffer has no shape");
  const auto type = KINEMA_PJRT(*client_->api, Buffer_ElementType, .buffer = buffer_);
  const auto dims = KINEMA_PJRT(*client_->api, Buffer_Dimensions, .buffer = buffer_);
  return {from_pjrt(type.type), Dims(dims.dims, dims.dims + dims.num_dims)};
}

int64_t Buffer::device_bytes() const {
  const auto reply = KINEMA_PJRT(*client_->api, Buffer_OnDeviceSizeInBytes, .buffer = buffer_);
  return static_cast<int64_t>(reply.on_device_size_in_bytes);
}

int64_t Buffer::device_id() const {
  const auto device = KINEMA_PJRT(*client_->api, Buffer_Device, .buffer = buffer_);
  const auto description =
      KINEMA_PJRT(*client_->api, Device_GetDescription, .device = device.device);
  return KINEMA_PJRT(*client_->api, DeviceDescription_Id,
                     .device_description = description.device_description)
      .id;
}

std::string Buffer::memory_kind() const {
  const auto reply = KINEMA_PJRT(*client_->api, Buffer_Memory, .buffer = buffer_);
  if (reply.memory == nullptr) return "";
  const auto kind = KINEMA_PJRT(*client_->api, Memory_Kind, .memory = reply.memory);
  return std::string(view(kind.kind, kind.kind_size));
}

MemoryKind Buffer::memory() const {
  return memory_kind() == kPinnedHost ? MemoryKind::PINNED_HOST : MemoryKind::DEVICE;
}

HostArray Buffer::to_host() const {
  HostArray out(shape());
  to_host(out.bytes);
  return out;
}

void Buffer::to_host(std::span<std::byte> into) const { start_to_host(into).await(); }

Event Buffer::start_to_host(std::span<std::byte> into) const {
  const Shape here = shape();
  check(static_cast<int64_t>(into.size()) == here.bytes(),
        "[pjrt] {} has {} bytes but is to be copied into {}", to_string(here), here.bytes(),
        into.size());
  check(!is_deleted(), "[pjrt] a buffer {} is read after it was donated or dropped",
        to_string(here));
  begin_transfer(Direction::TO_HOST, here);
  // Without a layout the plugin copies in the device's order of dimensions.
  std::vector<int64_t> minor_to_major(here.dims.size());
  for (size_t i = 0; i < minor_to_major.size(); ++i) {
    minor_to_major[i] = static_cast<int64_t>(minor_to_major.size() - 1 - i);
  }
  PJRT_Buffer_MemoryLayout layout{.struct_size = PJRT_Buffer_MemoryLayout_STRUCT_SIZE};
  layout.type = PJRT_Buffer_MemoryLayout_Type_Tiled;
  layout.tiled = {.struct_size = PJRT_Buffer_MemoryLayout_Tiled_STRUCT_SIZE,
                  .minor_to_major = minor_to_major.data(),
                  .minor_to_major_size = minor_to_major.size()};
  const auto reply =
      KINEMA_PJRT(*client_->api, Buffer_ToHostBuffer, .src = buffer_, .host_layout = &layout,
                  .dst = into.data(), .dst_size = into.size());
  return Event(client_->api, reply.event);
}

Event Buffer::ready() const {
  check(buffer_ != nullptr, "[pjrt] an empty buffer is never ready");
  return Event(client_->api,
               KINEMA_PJRT(*client_->api, Buffer_ReadyEvent, .buffer = buffer_).event);
}

void Buffer::drop() {
  if (buffer_ != nullptr) KINEMA_PJRT(*client_->api, Buffer_Delete, .buffer = buffer_);
}

bool Buffer::is_deleted() const {
  return buffer_ == nullptr ||
         KINEMA_PJRT(*client_->api, Buffer_IsDeleted, .buffer = buffer_).is_deleted;
}

}  // namespace kinema::pjrt
