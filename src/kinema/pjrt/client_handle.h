#pragma once

#include "kinema/pjrt/api.h"

namespace kinema::pjrt {

class Plugin;

/// The open client and what is needed to close it; owned together by the client and everything made
/// with it, because PJRT wants buffers and executables gone before their client.
struct ClientHandle {
  const Plugin* plugin;
  const PJRT_Api* api;
  PJRT_Client* client;

  ClientHandle(const Plugin* p, const PJRT_Api* a, PJRT_Client* c) : plugin(p), api(a), client(c) {}
  ClientHandle(const ClientHandle&) = delete;
  ClientHandle& operator=(const ClientHandle&) = delete;
  ~ClientHandle() {
    quietly([&] { KINEMA_PJRT(*api, Client_Destroy, .client = client); });
  }
};

}  // namespace kinema::pjrt
