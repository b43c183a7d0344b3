#include "kinema/http/server.h"

#include <fmt/format.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "kinema/core/error.h"
#include "kinema/http/connection.h"
// Behind connection.h, which has what Asio lacks.
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>

namespace kinema::http {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

}  // namespace

Response Shared::error(const Request& request, const Refusal& refusal) const {
  try {
    Response out = options.error ? options.error(request, refusal)
                                 : text_response(refusal.status, refusal.message + "\n");
    for (const auto& [name, value] : refusal.headers.fields()) {
      out.headers.set(name, value);
    }
    return out;
  } catch (const std::exception& error) {
    problem(error.what());
    return text_response(500, "the server failed\n");
  }
}

void Shared::problem(const std::string& line) const {
  if (options.on_problem) {
    options.on_problem(line);
  }
}

Admission::Admission(Shared& shared, std::string address, bool is_loopback)
    : shared_(shared), address_(std::move(address)), is_loopback_(is_loopback) {
  const std::lock_guard lock(shared_.mutex);
  const ServerOptions& options = shared_.options;
  const auto of_address = shared_.by_address.find(address_);
  const int taken = of_address == shared_.by_address.end() ? 0 : of_address->second;
  is_admitted_ = shared_.connections < options.connections &&
                 (is_loopback_ || taken < options.connections_per_address);
  if (is_admitted_) {
    ++shared_.connections;
    ++shared_.by_address[address_];
  }
}

Admission::~Admission() {
  if (!is_admitted_) {
    return;
  }
  const std::lock_guard lock(shared_.mutex);
  --shared_.connections;
  if (--shared_.by_address[address_] == 0) {
    shared_.by_address.erase(address_);
  }
}

struct Server::State {
  State(ServerOptions options, Gate gate, Router router)
      : shared(std::move(options), std::move(gate), std::move(router)) {}

  void load_certificate() {
    error_code error;
    const ServerOptions& options = shared.options;
    shared.tls.use_certificate_chain_file(options.tls_cert, error);
    check(!error, "[http] the certificate {} cannot be used: {}", options.tls_cert,
          error.message());
    shared.tls.use_private_key_file(options.tls_key, asio::ssl::context::pem, error);
    check(!error, "[http] the key {} cannot be used: {}", options.tls_key, error.message());
    shared.tls.set_options(asio::ssl::context::no_tlsv1 | asio::ssl::context::no_tlsv1_1, error);
  }

  void listen() {
    uint16_t port = shared.options.port;
    for (const std::string& address : shared.options.addresses) {
      error_code error;
      const asio::ip::address ip = asio::ip::make_address(address, error);
      check(!error, "[http] `{}` is not a numeric IP address", address);
      tcp::acceptor& acceptor = acceptors.emplace_back(asio::make_strand(shared.io));
      const tcp::endpoint endpoint(ip, port);
      acceptor.open(endpoint.protocol(), error);
      if (!error) {
        acceptor.set_option(asio::socket_base::reuse_address(true), error);
      }
      if (!error && ip.is_v6()) {
        acceptor.set_option(asio::ip::v6_only(true), error);
      }
      if (!error) {
        acceptor.bind(endpoint, error);
      }
      if (!error) {
        acceptor.listen(1024, error);
      }
      check(!error, "[http] the server cannot listen on {} port {}: {}\n  give another port",
            address, port, error.message());
      port = acceptor.local_endpoint().port();
    }
    bound_port = port;
  }

  void accept(tcp::acceptor& acceptor) {
    acceptor.async_accept(asio::make_strand(shared.io),
                          [this, &acceptor](error_code error, tcp::socket socket) {
                            if (shared.is_ending || error == asio::error::operation_aborted) {
                              return;
                            }
                            if (error) {  // out of descriptors or memory: it passes
                              auto pause = std::make_shared<asio::steady_timer>(
                                  acceptor.get_executor(), std::chrono::milliseconds(100));
                              pause->async_wait([this, &acceptor, pause](error_code) {
                                if (!shared.is_ending) {
                                  accept(acceptor);
                                }
                              });
                              return;
                            }
                            admit(std::move(socket));
                            accept(acceptor);
                          });
  }

  void admit(tcp::socket socket) {
    error_code error;
    const tcp::endpoint client = socket.remote_endpoint(error);
    if (error) {
      return;
    }
    auto admission = std::make_unique<Admission>(shared, client.address().to_string(),
                                                 client.address().is_loopback());
    if (!admission->is_admitted()) {
      return;  // closes it
    }
    socket.set_option(tcp::no_delay(true), error);
    if (shared.options.tls_cert.empty()) {
      serve_plain(shared, std::move(socket), std::move(admission));
    } else {
      serve_tls(shared, std::move(socket), std::move(admission));
    }
  }

  /// Whatever one connection throws ends neither the thread nor the others.
  void run() {
    while (true) {
      try {
        shared.io.run();
        return;
      } catch (const std::exception& error) {
        shared.problem(fmt::format("a connection failed: {}", error.what()));
      }
    }
  }

  Shared shared;
  std::vector<tcp::acceptor> acceptors;
  uint16_t bound_port = 0;
  asio::executor_work_guard<asio::io_context::executor_type> work{shared.io.get_executor()};
  std::vector<std::jthread> threads;
};

Server::Server(ServerOptions options, Gate gate, Router router)
    : state_(std::make_unique<State>(std::move(options), std::move(gate), std::move(router))) {
  const ServerOptions& given = state_->shared.options;
  check(given.tls_cert.empty() == given.tls_key.empty(),
        "[http] TLS needs both a certificate and its key");
  if (!given.tls_cert.empty()) {
    state_->load_certificate();
  }
  state_->acceptors.reserve(given.addresses.size());
  state_->listen();
  for (tcp::acceptor& acceptor : state_->acceptors) {
    state_->accept(acceptor);
  }
  for (int i = 0; i < given.io_threads; ++i) {
    state_->threads.emplace_back([state = state_.get()] { state->run(); });
  }
}

Server::~Server() {
  if (state_ && !state_->threads.empty()) {
    stop(std::chrono::milliseconds(0));
  }
}

uint16_t Server::port() const { return state_->bound_port; }

int Server::connections() const { return state_->shared.connections; }

void Server::stop(std::chrono::milliseconds grace) {
  Shared& shared = state_->shared;
  shared.is_ending = true;
  for (tcp::acceptor& acceptor : state_->acceptors) {
    asio::post(acceptor.get_executor(), [&acceptor] {
      error_code ignored;
      acceptor.close(ignored);
    });
  }
  const auto until = std::chrono::steady_clock::now() + grace;
  while ((shared.busy > 0 || shared.streams > 0) && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  shared.workers.stop();
  shared.workers.join();
  {
    const std::lock_guard lock(shared.lifeline->mutex);
    shared.lifeline->is_alive = false;
  }
  state_->work.reset();
  shared.io.stop();
  state_->threads.clear();  // joins
}

}  // namespace kinema::http
