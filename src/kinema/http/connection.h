#pragma once

// Private to the module: Asio and Beast take seconds to compile.

#include <utility>  // Asio 1.74 uses std::exchange without it
// clang-format off
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/thread_pool.hpp>
// clang-format on

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "kinema/http/server.h"

namespace kinema::http {

/// Whether a server still exists: replies and events may outlive it.
struct Lifeline {
  std::mutex mutex;
  bool is_alive = true;
};

/// What the connections of a server share.
struct Shared {
  ServerOptions options;
  Gate gate;
  Router router;
  boost::asio::thread_pool workers;
  boost::asio::ssl::context tls{boost::asio::ssl::context::tls_server};
  std::atomic<bool> is_ending = false;
  std::atomic<int> busy = 0;  // requests whose answer is not sent
  std::atomic<int> streams = 0;
  std::atomic<int> connections = 0;
  std::mutex mutex{};
  std::map<std::string, int> by_address{};
  std::shared_ptr<Lifeline> lifeline = std::make_shared<Lifeline>();
  boost::asio::io_context io{};  // last: connections that end with it use the others

  Shared(ServerOptions given, Gate gate_given, Router router_given)
      : options(std::move(given)),
        gate(std::move(gate_given)),
        router(std::move(router_given)),
        workers(static_cast<size_t>(options.handler_threads)) {}

  /// The answer for a refused request.
  Response error(const Request& request, const Refusal& refusal) const;
  void problem(const std::string& line) const;
};

/// A connection's place among those that are allowed, which its destructor frees.
class Admission {
 public:
  Admission(Shared& shared, std::string address, bool is_loopback);
  Admission(const Admission&) = delete;
  Admission& operator=(const Admission&) = delete;
  ~Admission();
  bool is_admitted() const { return is_admitted_; }
  const std::string& address() const { return address_; }
  bool is_loopback() const { return is_loopback_; }

 private:
  Shared& shared_;
  std::string address_;
  bool is_loopback_;
  bool is_admitted_ = false;
};

/// Serves a connection until it ends; it keeps itself alive.
void serve_plain(Shared& shared, boost::asio::ip::tcp::socket socket,
                 std::unique_ptr<Admission> admission);
void serve_tls(Shared& shared, boost::asio::ip::tcp::socket socket,
               std::unique_ptr<Admission> admission);

}  // namespace kinema::http
