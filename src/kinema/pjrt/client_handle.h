#pragma once

#include <memory>
#include <utility>

#include "kinema/pjrt/api.h"
#include "kinema/pjrt/key_value_calls.h"

namespace kinema::pjrt {

class Plugin;

/// The open client and everything needed to close it; owned by the client and all its objects,
/// because PJRT requires that buffers and executables are destroyed before their client.
struct ClientHandle {
  const Plugin* plugin;
  const PJRT_Api* api;
  PJRT_Client* client;
  std::unique_ptr<KeyValueCalls> key_values;  // called by the client until it is closed

  ClientHandle(const Plugin* p, const PJRT_Api* a, PJRT_Client* c,
               std::unique_ptr<KeyValueCalls> k = nullptr)
      : plugin(p), api(a), client(c), key_values(std::move(k)) {}
  ClientHandle(const ClientHandle&) = delete;
  ClientHandle& operator=(const ClientHandle&) = delete;
  ~ClientHandle() {
    ignoring_errors([&] { KINEMA_PJRT(*api, Client_Destroy, .client = client); });
  }
};

}  // namespace kinema::pjrt
