#pragma once

// A plugin's profiler for fake_plugin.cpp: it records one operation of one device.
#include <pjrt_c_api.h>

#include <chrono>
#include <cstdint>
#include <cstring>
#include <string>

namespace fake_profiler {
namespace {  // each plugin has its own, whatever else is loaded

// The layout declared in pjrt/profiler.cpp, repeated here.
struct Error {
  std::string message;
};
struct ErrorArgs {
  size_t struct_size;
  void* priv;
  Error* error;
};
struct MessageArgs {
  size_t struct_size;
  void* priv;
  const Error* error;
  const char* message;
  size_t message_size;
};
struct Session {
  int64_t began_ns = 0;
  bool running = false;
  std::string bytes;
};
struct CreateArgs {
  size_t struct_size;
  const char* options;
  size_t options_size;
  Session* session;
};
struct SessionArgs {
  size_t struct_size;
  Session* session;
};
struct CollectArgs {
  size_t struct_size;
  Session* session;
  uint8_t* buffer;
  size_t buffer_size;
};

void destroy_error(ErrorArgs* args) { delete args->error; }
void error_message(MessageArgs* args) {
  args->message = args->error->message.data();
  args->message_size = args->error->message.size();
}
Error* create(CreateArgs* args) {
  // tensorflow.ProfileOptions.version = 5 and device_tracer_level = 3: without them nothing is
  // recorded.
  const std::string options(args->options, args->options_size);
  if (args->struct_size != sizeof(CreateArgs) || options.find("\x28\x01") == std::string::npos ||
      options.find("\x18\x01") == std::string::npos) {
    return new Error{"options"};
  }
#ifdef FAKE_BUSY_PROFILER
  return new Error{"another profiler is at work"};
#else
  args->session = new Session;
  return nullptr;
#endif
}
Error* destroy(SessionArgs* args) {
  delete args->session;
  return nullptr;
}
Error* start(SessionArgs* args) {
  args->session->running = true;
  args->session->began_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(
                                std::chrono::system_clock::now().time_since_epoch())
                                .count();
  return nullptr;
}
Error* stop(SessionArgs* args) {
  args->session->running = false;
  return nullptr;
}

std::string varint(uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  return out + static_cast<char>(value);
}
std::string number(int field, uint64_t value) { return varint(field * 8) + varint(value); }
std::string bytes(int field, const std::string& value) {
  return varint(field * 8 + 2) + varint(value.size()) + value;
}

/// XSpace: plane `/device:FAKE:0` with a line of one event, `fusion.3`, of the operation
/// `blocks.0/attn1/to_q/dot`, 7 us long and 2 us after the line's time.
std::string recording(int64_t time_ns) {
  const std::string stat = number(1, 9) + bytes(5, "blocks.0/attn1/to_q/dot");
  const std::string event = number(1, 4) + number(2, 2'000'000) + number(3, 7'000'000);
  const std::string line = number(1, 1) + bytes(2, "Stream 1") +
                           number(3, static_cast<uint64_t>(time_ns)) + bytes(4, event);
  const std::string metadata = number(1, 4) + bytes(2, "fusion.3") + bytes(5, stat);
  const std::string stat_metadata = number(1, 9) + bytes(2, "tf_op");
  const std::string plane = number(1, 1) + bytes(2, "/device:FAKE:0") + bytes(3, line) +
                            bytes(4, number(1, 4) + bytes(2, metadata)) +
                            bytes(5, number(1, 9) + bytes(2, stat_metadata));
  return bytes(1, plane);
}

Error* collect(CollectArgs* args) {
  Session& session = *args->session;
  if (session.running) return new Error{"still running"};
  session.bytes = recording(session.began_ns);
#ifdef FAKE_COUNTING_PROFILER
  // First reports the size; the caller provides the memory.
  if (args->buffer != nullptr)
    std::memcpy(args->buffer, session.bytes.data(), session.bytes.size());
#else
  session.bytes += '\0';  // as XLA's own does
  args->buffer = reinterpret_cast<uint8_t*>(session.bytes.data());
#endif
  args->buffer_size = session.bytes.size();
  return nullptr;
}

[[maybe_unused]] PJRT_Extension_Base* extension() {
  static struct Api {
    size_t struct_size = sizeof(Api);
    void* priv = nullptr;
    void (*error_destroy)(ErrorArgs*) = fake_profiler::destroy_error;
    void (*error_message)(MessageArgs*) = fake_profiler::error_message;
    void* error_get_code = nullptr;
    Error* (*create)(CreateArgs*) = fake_profiler::create;
    Error* (*destroy)(SessionArgs*) = fake_profiler::destroy;
    Error* (*start)(SessionArgs*) = fake_profiler::start;
    Error* (*stop)(SessionArgs*) = fake_profiler::stop;
    Error* (*collect)(CollectArgs*) = fake_profiler::collect;
  } api;
#ifdef FAKE_SHORT_PROFILER
  api.struct_size -= sizeof(void*);
#endif
  static struct {
    PJRT_Extension_Base base;
    Api* api;
    int64_t context = 0;
  } extension{{.struct_size = 40, .type = PJRT_Extension_Type_Profiler, .next = nullptr}, &api};
  return &extension.base;
}

}  // namespace
}  // namespace fake_profiler
