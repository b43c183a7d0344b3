#include "kinema/pjrt/plugin.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <memory>
#include <mutex>

#include "kinema/core/errno_text.h"
#include "kinema/pjrt/api.h"

namespace kinema::pjrt {
namespace {

// Fields of PJRT_Api were reordered at 0.57, so older plugins cannot be used with this header.
constexpr int kMajor = 0;
constexpr int kOldestMinor = 57;

const PJRT_Api* open_api(const std::string& path) {
  // RTLD_LOCAL: plugins contain their own copies of protobuf and absl, which must not be mixed with
  // kinema's.
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* reason = dlerror();
    fail("[pjrt] `{}` cannot be loaded: {}", path, reason != nullptr ? reason : "no reason given");
  }
  const auto get_api = reinterpret_cast<const PJRT_Api* (*)()>(dlsym(library, "GetPjrtApi"));
  check(get_api != nullptr, "[pjrt] `{}` is not a PJRT plugin: it has no function GetPjrtApi",
        path);
  const PJRT_Api* api = get_api();
  check(api != nullptr, "[pjrt] `{}`: GetPjrtApi returned nothing", path);
  const PJRT_Api_Version& version = api->pjrt_api_version;
  check(api->struct_size >= offsetof(PJRT_Api, PJRT_Plugin_Initialize) &&
            api->PJRT_Error_Message != nullptr && api->PJRT_Error_Destroy != nullptr,
        "[pjrt] `{}`: its table of functions has {} bytes and lacks those for errors", path,
        api->struct_size);
  check(version.major_version == kMajor && version.minor_version >= kOldestMinor,
        "[pjrt] `{}` speaks PJRT {}.{} but {}.{} or a later {}.x is needed", path,
        version.major_version, version.minor_version, kMajor, kOldestMinor, kMajor);
  return api;
}

}  // namespace

Plugin::Plugin(std::string path, const PJRT_Api* api)
    : path_(std::move(path)),
      api_(api),
      major_(api->pjrt_api_version.major_version),
      minor_(api->pjrt_api_version.minor_version) {
  // The first call: libtpu aborts if another one precedes it.
  KINEMA_PJRT(*api_, Plugin_Initialize);
  if (api_->PJRT_Plugin_Attributes != nullptr) {
    const auto reply = KINEMA_PJRT(*api_, Plugin_Attributes);
    attributes_ = read_named_values(reply.attributes, reply.num_attributes);
  }
}

const Plugin& Plugin::load(const std::string& path) {
  static std::mutex mutex;
  static std::map<std::string, std::unique_ptr<Plugin>> loaded;
  std::error_code error;
  const std::filesystem::path file = std::filesystem::canonical(path, error);
  check(!error, "[pjrt] no plugin at `{}`: {}", path, errno_text(error));

  const std::lock_guard lock(mutex);
  std::unique_ptr<Plugin>& slot = loaded[file.string()];
  if (slot == nullptr) slot.reset(new Plugin(file.string(), open_api(file.string())));
  return *slot;
}

std::string Plugin::stablehlo_version() const {
  const auto found = attributes_.find("stablehlo_current_version");
  if (found == attributes_.end()) return "";
  const auto* parts = std::get_if<std::vector<int64_t>>(&found->second);
  return parts != nullptr ? fmt::format("{}", fmt::join(*parts, ".")) : to_string(found->second);
}

const void* Plugin::extension(int type) const {
  for (const PJRT_Extension_Base* e = api_->extension_start; e != nullptr; e = e->next) {
    if (static_cast<int>(e->type) == type) return e;
  }
  return nullptr;
}

}  // namespace kinema::pjrt
