#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kinema/http/gate.h"
#include "kinema/http/message.h"
#include "kinema/http/router.h"

/// An HTTP/1.1 server for a program's own API and page: few threads, bounded memory, and limits for
/// whoever sends too much or too slowly. It prints nothing and takes no signal.
namespace kinema::http {

/// Limits and places of a server.
struct ServerOptions {
  /// Numeric addresses; all get the same port.
  std::vector<std::string> addresses = {"127.0.0.1"};
  uint16_t port = 0;  // 0: any free one
  /// PEM files of a certificate chain and its key; both empty: no TLS.
  std::string tls_cert = {};
  std::string tls_key = {};

  uint32_t header_bytes = 16384;
  std::chrono::milliseconds header_time{10'000};  // for all of a header, with the TLS handshake
  std::chrono::milliseconds idle_time{30'000};    // between two requests of a connection
  std::chrono::milliseconds body_time{60'000};    // and what body_bytes_per_second adds
  int64_t body_bytes_per_second = 1 << 16;
  std::chrono::milliseconds write_time{10'000};  // for each 64 KiB of an answer
  std::chrono::milliseconds keep_time{15'000};   // between comments in a stream without events
  int connections = 512;
  int connections_per_address = 32;  // of other machines
  int streams = 256;
  int io_threads = 2;
  int handler_threads = 4;

  std::filesystem::path upload_folder = {};  // for routes with BodyRule::to_file
  Headers headers = {};                      // of every answer
  /// Makes the answer for a request that no handler answers: refused by gate or limits, unknown
  /// path, an exception. May be called before the request is complete. Empty: plain text.
  std::function<Response(const Request&, const Refusal&)> error = {};
  /// A log line about a failure that no client caused.
  std::function<void(const std::string&)> on_problem = {};
};

class Server {
 public:
  /// Listens and starts to answer. Throws an Error with address and port if that fails, or if the
  /// files for TLS are not usable.
  Server(ServerOptions options, Gate gate, Router router);
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  /// As stop(0).
  ~Server();

  uint16_t port() const;
  /// Open connections.
  int connections() const;
  /// Takes no new connections, waits at most `grace` for answers that are being made and for event
  /// streams, which EventStream::end ends, and closes everything. May be called once.
  void stop(std::chrono::milliseconds grace);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace kinema::http
