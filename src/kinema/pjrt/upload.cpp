#include "kinema/pjrt/upload.h"

#include <cstring>
#include <utility>

#include "kinema/pjrt/api.h"
#include "kinema/pjrt/client_handle.h"
#include "kinema/pjrt/element_type.h"
#include "kinema/pjrt/host_layout.h"
#include "kinema/pjrt/transfers.h"

namespace kinema::pjrt {

/// PJRT's manager of one array being transferred.
struct Upload::Transfer {
  std::shared_ptr<const ClientHandle> handle;
  PJRT_AsyncHostToDeviceTransferManager* manager = nullptr;

  Transfer(std::shared_ptr<const ClientHandle> h, PJRT_AsyncHostToDeviceTransferManager* m)
      : handle(std::move(h)), manager(m) {}
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;
  ~Transfer() {
    ignoring_errors([&] {
      KINEMA_PJRT(*handle->api, AsyncHostToDeviceTransferManager_Destroy,
                  .transfer_manager = manager);
    });
  }
};

namespace {

bool offers_transfers(const PJRT_Api& api) {
  const size_t last = offsetof(PJRT_Api, PJRT_Client_CreateBuffersForAsyncHostToDevice);
  return last + sizeof(void*) <= api.struct_size &&
         api.PJRT_Client_CreateBuffersForAsyncHostToDevice != nullptr &&
         api.PJRT_AsyncHostToDeviceTransferManager_TransferData != nullptr &&
         api.PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer != nullptr;
}

PJRT_AsyncHostToDeviceTransferManager* create(const ClientHandle& handle, const Shape& shape,
                                              const Device& device, MemoryKind memory) {
  PJRT_ShapeSpec spec{.struct_size = PJRT_ShapeSpec_STRUCT_SIZE,
                      .dims = shape.dims.data(),
                      .num_dims = shape.dims.size(),
                      .element_type = to_pjrt(shape.dtype)};
  ByteTiles tiles(shape);
  PJRT_Buffer_MemoryLayout* layout = tiles.layout();
  const bool tiled = has_byte_tiles(handle, shape, memory);
  return KINEMA_PJRT(*handle.api, Client_CreateBuffersForAsyncHostToDevice, .client = handle.client,
                     .shape_specs = &spec, .num_shape_specs = 1,
                     .device_layouts = tiled ? &layout : nullptr,
                     .num_device_layouts = tiled ? size_t{1} : size_t{0},
                     .memory = device.memory_of(memory))
      .transfer_manager;
}

}  // namespace

Upload::Upload(const Client& client, const Shape& shape)
    : Upload(client, shape, client.addressable_devices().front()) {}

Upload::Upload(const Client& client, const Shape& shape, Device device, MemoryKind memory)
    : client_(client), shape_(shape), device_(device), memory_(memory) {
  const auto handle = client_.handle();
  // An array without bytes has no piece with which the transfer could end.
  if (shape.bytes() > 0 && offers_transfers(*handle->api)) {
    try {
      transfer_ = std::make_unique<Transfer>(handle, create(*handle, shape, device, memory));
    } catch (const Error&) {
      // Offered but not implemented, or no device memory: the plain copy reports that.
    }
  }
  if (transfer_ != nullptr) {
    begin_transfer(Direction::TO_DEVICE, shape);
  } else {
    gathered_ = HostArray(shape);
  }
}

Upload::Upload(Upload&& other) noexcept = default;
Upload::~Upload() = default;

void Upload::write(std::span<const std::byte> bytes) {
  check(written_ + static_cast<int64_t>(bytes.size()) <= shape_.bytes(),
        "[pjrt] {} takes {} bytes but more than {} were given", to_string(shape_), shape_.bytes(),
        written_);
  if (bytes.empty()) {
    return;
  }
  const int64_t offset = std::exchange(written_, written_ + static_cast<int64_t>(bytes.size()));
  if (transfer_ == nullptr) {
    std::memcpy(gathered_.bytes.data() + offset, bytes.data(), bytes.size());
    return;
  }
  const PJRT_Api& api = *transfer_->handle->api;
  const auto reply =
      KINEMA_PJRT(api, AsyncHostToDeviceTransferManager_TransferData,
                  .transfer_manager = transfer_->manager, .buffer_index = 0, .data = bytes.data(),
                  .offset = offset, .transfer_size = static_cast<int64_t>(bytes.size()),
                  .is_last_transfer = written_ == shape_.bytes());
  Event(&api, reply.done_with_h2d_transfer).await();
}

Buffer Upload::finish() {
  check(written_ == shape_.bytes(), "[pjrt] {} takes {} bytes but only {} were given",
        to_string(shape_), shape_.bytes(), written_);
  if (transfer_ == nullptr) {
    return client_.to_device(std::move(gathered_), device_, memory_);
  }
  const auto reply =
      KINEMA_PJRT(*transfer_->handle->api, AsyncHostToDeviceTransferManager_RetrieveBuffer,
                  .transfer_manager = transfer_->manager, .buffer_index = 0);
  Buffer buffer(transfer_->handle, reply.buffer_out);
  transfer_.reset();
  return buffer;
}

}  // namespace kinema::pjrt
