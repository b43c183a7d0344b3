#pragma once

#include <memory>
#include <utility>

#include "kinema/pjrt/api.h"
#include "kinema/pjrt/key_value_calls.h"

namespace kinema::pjrt {

class Plugin;

/// The open client and what is needed to close it; owned together by the client and everything made
/// with it, because PJRT wants buffers and executables gone before their client.
struct ClientHandle {
  const Plugin* plugin;
  const PJRT_Api* api;
  PJRT_Client* client;
  std::unique_ptr<KeyValueCalls> key_values;  // which the client calls until it is closed

  ClientHandle(const Plugin* p, const PJRT_Api* a, PJRT_Client* c,
               std::unique_ptr<KeyValueCalls> k = nullptr)
      : plugin(p), api(a), client(c), key_values(std::move(k)) {}
  ClientHandle(const ClientHandle&) = delete;
  ClientHandle& operator=(const ClientHandle&) = delete;
  ~ClientHandle() {
    quietly([&] { KINEMA_PJRT(*api, Client_Destroy, .client = client); });
  }
};

}  // namespace kinema::pjrt
