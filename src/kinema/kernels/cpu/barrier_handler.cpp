#include <cstring>

#include "kinema/kernels/cpu/handlers.h"
#include "xla/ffi/api/ffi.h"

namespace kinema::kernels {
namespace {

namespace ffi = ::xla::ffi;

ffi::Error barrier(ffi::RemainingArgs in, ffi::RemainingRets out) {
  for (size_t i = 0; i < in.size(); ++i) {
    auto from = in.get<ffi::AnyBuffer>(i);
    auto to = out.get<ffi::AnyBuffer>(i);
    if (!from.has_value() || !to.has_value()) {
      return ffi::Error::Internal("[barrier kernel] an operand cannot be read");
    }
    // The call asks for aliased buffers, but the plugin may still copy.
    if ((*to)->untyped_data() != from->untyped_data()) {
      std::memcpy((*to)->untyped_data(), from->untyped_data(), from->size_bytes());
    }
  }
  return ffi::Error::Success();
}

XLA_FFI_DEFINE_HANDLER(kBarrierHandler, barrier, ffi::Ffi::Bind().RemainingArgs().RemainingRets());

}  // namespace

void* barrier_handler() { return reinterpret_cast<void*>(kBarrierHandler); }

}  // namespace kinema::kernels
