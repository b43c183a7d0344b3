#include <map>
#include <mutex>
#include <utility>

#include "kinema/pjrt/api.h"
#include "kinema/pjrt/plugin.h"

namespace kinema::pjrt {
namespace {

// The plugin's wheel contains no header for this extension, so its layout is declared here
// (xla/pjrt/c/pjrt_c_api_ffi_extension.h; the plugin checks struct sizes at run time).
struct FfiExtension {
  PJRT_Extension_Base base;
  void* type_register;
  void* user_data_add;
  PJRT_Error* (*register_handler)(void* args);
};

// The layout of PJRT 0.81.
struct RegisterArgs {
  size_t struct_size;
  const char* name;
  size_t name_size;
  void* handler;
  const char* platform;
  size_t platform_size;
  uint32_t traits;
};

// The layout of plugins that also accept untyped handlers.
struct VersionedRegisterArgs {
  size_t struct_size;
  const char* name;
  size_t name_size;
  int api_version;  // 1: typed
  void* handler;
  const char* platform;
  size_t platform_size;
  uint32_t traits;
};

// Sizes up to the last field, without tail padding, as PJRT counts them.
constexpr size_t kRegisterSize = offsetof(RegisterArgs, traits) + sizeof(uint32_t);
constexpr size_t kVersionedSize = offsetof(VersionedRegisterArgs, traits) + sizeof(uint32_t);

PJRT_Error* register_typed(const FfiExtension& ffi, const PJRT_Api& api, const std::string& name,
                           void* handler, const std::string& platform) {
  RegisterArgs args{.struct_size = kRegisterSize,
                    .name = name.data(),
                    .name_size = name.size(),
                    .handler = handler,
                    .platform = platform.data(),
                    .platform_size = platform.size()};
  PJRT_Error* error = ffi.register_handler(&args);
  if (error == nullptr) return nullptr;
  // A plugin that needs the longer struct reports an error before it reads anything, so this order
  // of attempts is safe; the other is not.
  const std::string message = take_message(api, error);
  check(message.find("size") != std::string::npos, "[pjrt] FFI handler `{}` for {}: {}", name,
        platform, message);
  VersionedRegisterArgs versioned{.struct_size = kVersionedSize,
                                  .name = name.data(),
                                  .name_size = name.size(),
                                  .api_version = 1,
                                  .handler = handler,
                                  .platform = platform.data(),
                                  .platform_size = platform.size()};
  return ffi.register_handler(&versioned);
}

}  // namespace

void Plugin::register_ffi_handler(const std::string& name, void* handler,
                                  const std::string& platform) const {
  static std::mutex mutex;
  static std::map<std::pair<const Plugin*, std::pair<std::string, std::string>>, void*> known;
  const auto* ffi =
      static_cast<const FfiExtension*>(extension(static_cast<int>(PJRT_Extension_Type_FFI)));
  check(ffi != nullptr && ffi->base.struct_size >= sizeof(FfiExtension) &&
            ffi->register_handler != nullptr,
        "[pjrt] `{}` takes no FFI handlers (PJRT {}.{})", path_, major_, minor_);

  const std::lock_guard lock(mutex);
  const auto key = std::pair(this, std::pair(platform, name));
  if (const auto found = known.find(key); found != known.end()) {
    check(found->second == handler, "[pjrt] FFI handler `{}` for {} is already another function",
          name, platform);
    return;
  }
  if (PJRT_Error* error = register_typed(*ffi, *api_, name, handler, platform)) {
    fail("[pjrt] FFI handler `{}` for {}: {}", name, platform, take_message(*api_, error));
  }
  known[key] = handler;
}

}  // namespace kinema::pjrt
