#include "kinema/pjrt/profiler.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kinema/pjrt/api.h"

namespace kinema::pjrt {
namespace {

// Wheels contain no header for this extension, so its layout is declared here
// (xla/backends/profiler/plugin/profiler_c_api.h, version 1).
struct ErrorArgs {
  size_t struct_size;
  void* priv;
  void* error;
};

struct MessageArgs {
  size_t struct_size;
  void* priv;
  const void* error;
  const char* message;
  size_t message_size;
};

struct CreateArgs {
  size_t struct_size;
  const char* options;
  size_t options_size;
  void* profiler;
};

struct SessionArgs {  // for destroy, start and stop
  size_t struct_size;
  void* profiler;
};

struct CollectArgs {
  size_t struct_size;
  void* profiler;
  uint8_t* buffer;
  size_t buffer_size;
};

struct Api {
  size_t struct_size;
  void* priv;
  void (*error_destroy)(ErrorArgs*);
  void (*error_message)(MessageArgs*);
  void* error_get_code;
  void* (*create)(CreateArgs*);
  void* (*destroy)(SessionArgs*);
  void* (*start)(SessionArgs*);
  void* (*stop)(SessionArgs*);
  void* (*collect_data)(CollectArgs*);  // newer tables are longer
};

struct Extension {
  PJRT_Extension_Base base;
  const Api* api;
};

const Api* api_of(const Plugin& plugin) {
  const auto* extension =
      static_cast<const Extension*>(plugin.extension(PJRT_Extension_Type_Profiler));
  // In some plugins struct_size of the extension is that of its base, although the table exists;
  // the table has its own size.
  return extension == nullptr ? nullptr : extension->api;
}

// The plugin declares its functions with its own argument structs of the same layout.
#ifdef __clang__
#define KINEMA_FUNCTION_OF_A_PLUGIN __attribute__((no_sanitize("function")))
#else
#define KINEMA_FUNCTION_OF_A_PLUGIN
#endif

/// Calls a function of the table and turns its error object into an Error.
template <typename Args>
KINEMA_FUNCTION_OF_A_PLUGIN void call(const Api& api, const char* what, void* (*function)(Args*),
                                      Args& args) {
  void* error = function(&args);
  if (error == nullptr) {
    return;
  }
  MessageArgs message{.struct_size = sizeof(MessageArgs), .priv = nullptr, .error = error};
  api.error_message(&message);
  const std::string text(view(message.message, message.message_size));
  ErrorArgs destroy{.struct_size = sizeof(ErrorArgs), .priv = nullptr, .error = error};
  api.error_destroy(&destroy);
  fail("[pjrt] the plugin's profiler: {}: {}", what, text);
}

const Api& table(const void* api) { return *static_cast<const Api*>(api); }

// tensorflow.ProfileOptions: version (5) 1, host_tracer_level (2) 1: the plugin's own annotations,
// device_tracer_level (3) 1, enable_hlo_proto (7): the programs, which name operations.
constexpr char kOptions[] = {5 << 3, 1, 2 << 3, 1, 3 << 3, 1, 7 << 3, 1};

}  // namespace

bool Profiler::is_available(const Plugin& plugin) { return api_of(plugin) != nullptr; }

Profiler::Profiler(const Plugin& plugin) : api_(api_of(plugin)) {
  check(api_ != nullptr, "[pjrt] {} has no profiler", plugin.path());
  const Api& api = table(api_);
  check(api.struct_size >= sizeof(Api) && api.create != nullptr && api.destroy != nullptr &&
            api.start != nullptr && api.stop != nullptr && api.collect_data != nullptr &&
            api.error_message != nullptr && api.error_destroy != nullptr,
        "[pjrt] {}: its profiler's table of functions has {} bytes, {} are needed", plugin.path(),
        api.struct_size, sizeof(Api));
  CreateArgs create{.struct_size = sizeof(CreateArgs),
                    .options = kOptions,
                    .options_size = sizeof(kOptions),
                    .profiler = nullptr};
  call(api, "create", api.create, create);
  session_ = create.profiler;
  SessionArgs start{.struct_size = sizeof(SessionArgs), .profiler = session_};
  try {
    call(api, "start", api.start, start);
  } catch (...) {
    SessionArgs destroy{.struct_size = sizeof(SessionArgs), .profiler = session_};
    ignoring_errors([&] { call(api, "destroy", api.destroy, destroy); });
    throw;
  }
  is_running_ = true;
}

Profiler::~Profiler() {
  const Api& api = table(api_);
  SessionArgs args{.struct_size = sizeof(SessionArgs), .profiler = session_};
  if (is_running_) {
    ignoring_errors([&] { call(api, "stop", api.stop, args); });
  }
  ignoring_errors([&] { call(api, "destroy", api.destroy, args); });
}

std::string Profiler::stop() {
  check(is_running_, "[pjrt] the plugin's profiler was stopped before");
  const Api& api = table(api_);
  is_running_ = false;
  SessionArgs stop{.struct_size = sizeof(SessionArgs), .profiler = session_};
  call(api, "stop", api.stop, stop);
  CollectArgs collect{.struct_size = sizeof(CollectArgs),
                      .profiler = session_,
                      .buffer = nullptr,
                      .buffer_size = 0};
  call(api, "collect_data", api.collect_data, collect);
  if (collect.buffer != nullptr) {  // memory of the plugin, valid until the session is destroyed
    return {reinterpret_cast<const char*>(collect.buffer), collect.buffer_size};
  }
  std::string out(collect.buffer_size, '\0');
  collect.buffer = reinterpret_cast<uint8_t*>(out.data());
  if (!out.empty()) {  // the call returned only the size
    call(api, "collect_data", api.collect_data, collect);
    out.resize(std::min(out.size(), collect.buffer_size));
  }
  return out;
}

}  // namespace kinema::pjrt
