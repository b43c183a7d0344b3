#include "kinema/cluster/handlers.h"

#include <fmt/format.h>

#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "kinema/pjrt/collective_calls.h"
#include "xla/ffi/api/ffi.h"

namespace kinema::cluster {
namespace {

namespace ffi = ::xla::ffi;

struct Served {
  std::shared_ptr<const SharedProgram> program;
  std::shared_ptr<Exchange> exchange;
};

/// Handlers are plain functions, which find their program by number.
class Registry {
 public:
  bool add(const std::shared_ptr<const Served>& served) {
    const std::lock_guard lock(mutex_);
    std::erase_if(all_, [](const auto& each) { return each.second.expired(); });
    return all_.emplace(served->program->number, served).second;
  }
  std::shared_ptr<const Served> find(int64_t number) {
    const std::lock_guard lock(mutex_);
    const auto found = all_.find(number);
    return found == all_.end() ? nullptr : found->second.lock();
  }

 private:
  std::mutex mutex_;
  std::map<int64_t, std::weak_ptr<const Served>> all_;
};

Registry& registry() {
  static Registry all;
  return all;
}

std::optional<DType> dtype_of(ffi::DataType type) {
  switch (type) {
    case ffi::PRED:
      return DType::PRED;
    case ffi::S8:
      return DType::S8;
    case ffi::U8:
      return DType::U8;
    case ffi::S16:
      return DType::S16;
    case ffi::U16:
      return DType::U16;
    case ffi::S32:
      return DType::S32;
    case ffi::S64:
      return DType::S64;
    case ffi::U32:
      return DType::U32;
    case ffi::U64:
      return DType::U64;
    case ffi::F16:
      return DType::F16;
    case ffi::BF16:
      return DType::BF16;
    case ffi::F32:
      return DType::F32;
    case ffi::F64:
      return DType::F64;
    default:
      return std::nullopt;
  }
}

ffi::Future failure(const std::string& message) {
  ffi::Promise promise;
  promise.SetError(ffi::Error::Internal(message));
  return ffi::Future(promise);
}

ffi::Future arrive(int64_t number, int64_t site, int32_t device, const ffi::RemainingArgs& in,
                   ffi::RemainingRets& out) {
  const std::shared_ptr<const Served> served = registry().find(number);
  if (!served || site < 0 || site >= std::ssize(served->program->calls)) {
    return failure("[cluster] a collective of a program that no longer exists");
  }
  const auto partition = served->program->partition_of.find(device);
  if (partition == served->program->partition_of.end()) {
    return failure(
        fmt::format("[cluster] a program runs on device {}, for which it was not made", device));
  }
  Arrival arrival{.partition = partition->second};
  for (size_t i = 0; i < in.size(); ++i) {
    const auto buffer = in.get<ffi::AnyBuffer>(i);
    if (!buffer.has_value()) {
      return failure("[cluster] an operand of a collective cannot be read");
    }
    // Types without a name here can be moved, but not reduced.
    arrival.dtype = dtype_of(buffer->element_type()).value_or(DType::F16);
    arrival.operands.emplace_back(static_cast<const std::byte*>(buffer->untyped_data()),
                                  buffer->size_bytes());
  }
  for (size_t i = 0; i < out.size(); ++i) {
    auto buffer = out.get<ffi::AnyBuffer>(i);
    if (!buffer.has_value()) {
      return failure("[cluster] a result of a collective cannot be written");
    }
    arrival.results.emplace_back(static_cast<std::byte*>((*buffer)->untyped_data()),
                                 (*buffer)->size_bytes());
  }
  auto promise = std::make_shared<ffi::Promise>();
  ffi::Future future(*promise);
  arrival.done = [promise](const std::string& error) {
    if (error.empty()) {
      promise->SetAvailable();
    } else {
      promise->SetError(ffi::Error::Internal(error));
    }
  };
  served->exchange->arrive(served->program, static_cast<size_t>(site), std::move(arrival));
  return future;
}

// XLA's threads call the handlers without exception support: an exception would end the process.
ffi::Future collective(int64_t number, int64_t site, int32_t device, ffi::RemainingArgs in,
                       ffi::RemainingRets out) {
  try {
    return arrive(number, site, device, in, out);
  } catch (const std::exception& error) {
    return failure(error.what());
  }
}

ffi::Error partition(int64_t number, int32_t device, ffi::Result<ffi::BufferR0<ffi::U32>> out) {
  try {
    const std::shared_ptr<const Served> served = registry().find(number);
    if (!served || !served->program->partition_of.contains(device)) {
      return ffi::Error::Internal("[cluster] the partition of a program that no longer exists");
    }
    *out->typed_data() = static_cast<uint32_t>(served->program->partition_of.at(device));
    return ffi::Error::Success();
  } catch (const std::exception& error) {
    return ffi::Error::Internal(error.what());
  }
}

XLA_FFI_DEFINE_HANDLER(kCollective, collective,
                       ffi::Ffi::Bind()
                           .Attr<int64_t>("program")
                           .Attr<int64_t>("site")
                           .Ctx<ffi::DeviceOrdinal>()
                           .RemainingArgs()
                           .RemainingRets());
XLA_FFI_DEFINE_HANDLER(kPartition, partition,
                       ffi::Ffi::Bind()
                           .Attr<int64_t>("program")
                           .Ctx<ffi::DeviceOrdinal>()
                           .Ret<ffi::BufferR0<ffi::U32>>());

}  // namespace

void register_handlers(const pjrt::Plugin& plugin) {
  plugin.register_ffi_handler(pjrt::kCollectiveHandler, reinterpret_cast<void*>(kCollective),
                              "Host");
  plugin.register_ffi_handler(pjrt::kPartitionHandler, reinterpret_cast<void*>(kPartition), "Host");
}

std::shared_ptr<const void> serve(const std::shared_ptr<const SharedProgram>& program,
                                  const std::shared_ptr<Exchange>& exchange) {
  const auto served = std::make_shared<const Served>(Served{program, exchange});
  return registry().add(served) ? served : nullptr;
}

}  // namespace kinema::cluster
