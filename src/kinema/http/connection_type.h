#pragma once

// Private to connection.cpp: a connection's state, and what its parts share.

#include "kinema/http/connection.h"

// Behind connection.h, which has what Asio lacks.
#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl.hpp>
#include <limits>
#include <optional>
#include <type_traits>

#include "kinema/core/error.h"
#include "kinema/http/events.h"
#include "kinema/http/target.h"

namespace kinema::http {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace wire = boost::beast::http;
using boost::system::error_code;

constexpr size_t kPiece = 65536;
constexpr std::chrono::seconds kLinger{2};

/// Counts in a server's total while it lives.
class Counted {
 public:
  explicit Counted(std::atomic<int>& count) : count_(&count) { ++*count_; }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;
  ~Counted() { --*count_; }

 private:
  std::atomic<int>* count_;
};

inline bool takes_type(const BodyRule& rule, const std::string& type) {
  return std::ranges::any_of(rule.types, [&](const std::string& one) {
    return one.ends_with("/*") ? type.starts_with(one.substr(0, one.size() - 1)) : one == type;
  });
}

/// The start of an answer, up to the empty line. Events have no length and end the connection.
inline std::string head_text(const Response& response, const Headers& common, int64_t length,
                             bool keep) {
  std::string out = fmt::format("HTTP/1.1 {} {}\r\n", response.status, reason(response.status));
  for (const auto& [name, value] : response.headers.fields()) {
    out += fmt::format("{}: {}\r\n", name, value);
  }
  for (const auto& [name, value] : common.fields()) {
    if (!response.headers.contains(name)) {
      out += fmt::format("{}: {}\r\n", name, value);
    }
  }
  if (length >= 0 && response.status != 204 && response.status != 304) {
    out += fmt::format("Content-Length: {}\r\n", length);
  }
  out += keep ? "Connection: keep-alive\r\n\r\n" : "Connection: close\r\n\r\n";
  return out;
}

inline Response events_head(const Response& response) {
  Response out{.status = 200, .headers = response.headers};
  out.headers.set("Content-Type", "text/event-stream").set("Cache-Control", "no-store");
  return out;
}

/// One connection, on a strand of its own: its functions are never called at the same time.
template <typename Stream>
class Connection : public std::enable_shared_from_this<Connection<Stream>> {
 public:
  static constexpr bool kIsTls = !std::is_same_v<Stream, beast::tcp_stream>;

  template <typename... Arguments>
  Connection(Shared& shared, std::unique_ptr<Admission> admission, Arguments&&... stream)
      : shared_(shared),
        admission_(std::move(admission)),
        stream_(std::forward<Arguments>(stream)...),
        busy_timer_(stream_.get_executor()),
        keep_timer_(stream_.get_executor()) {}
  ~Connection() {
    *is_gone_ = true;
    forget_events();
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void start();

  /// From any thread: the answer of a handler. The strand releases `self`, since the destructor
  /// takes locks that the caller may hold.
  static void reply(std::shared_ptr<Connection> self, uint64_t request, Response response);

 private:
  class Channel;

  beast::tcp_stream& tcp() { return beast::get_lowest_layer(stream_); }

  // Reading.
  void read_header();
  void on_header(error_code error);

  /// Finds the route and checks everything that the header tells. Throws a Refusal.
  void choose_route();
  bool has_body() const;
  void check_body(const BodyRule& rule) const;
  void read_body();
  void read_content(std::chrono::milliseconds time);

  /// Into the file piece by piece: the body is never in memory.
  void read_to_file();
  void on_file_piece(error_code error);
  void on_read_error(error_code error);

  // Answering.
  void handle();
  static void run_handler(Shared& shared, const Route& route, Request& request, const Reply& reply);

  /// Notices a client that leaves while its answer is made, without reading what it sends.
  void watch();
  void look_for_end();
  void answer(uint64_t request, Response response);
  void refuse(const Refusal& refusal) { finish(shared_.error(*request_, refusal)); }

  void finish(Response response);

  /// Sends `out_` and then the file, in pieces that each have the time of `write_time`.
  void write_piece();
  void on_written();

  // Events.
  void begin_events(Response response);
  void on_woken();

  /// Sends the head or the next events; without any, waits to be woken.
  void write_events();

  /// Comments in a quiet stream, by which both sides notice a broken connection.
  void keep();
  void forget_events();

  // Ending.
  /// Closes for writing and throws away what still comes, for a moment: closing at once would make
  /// the client see a reset instead of the answer.
  void linger();
  void drain();
  void close();

  Shared& shared_;
  std::unique_ptr<Admission> admission_;
  Stream stream_;
  beast::flat_buffer buffer_{1 << 17};
  std::string piece_;  // of an upload

  std::optional<wire::request_parser<wire::empty_body>> head_;
  std::optional<wire::request_parser<wire::string_body>> text_;
  std::optional<wire::request_parser<wire::buffer_body>> file_;
  std::shared_ptr<Request> request_;
  const Route* route_ = nullptr;
  Headers cross_origin_;
  bool is_keeping_ = false;
  bool is_body_read_ = false;

  uint64_t number_ = 0;  // of the request
  std::optional<Counted> busy_;
  const std::shared_ptr<std::atomic<bool>> is_gone_ = std::make_shared<std::atomic<bool>>(false);
  asio::steady_timer busy_timer_;
  std::string out_;
  size_t sent_ = 0;
  FileSlice rest_;

  std::shared_ptr<EventStream> events_;
  uint64_t listener_ = 0;
  uint64_t cursor_ = 0;
  std::optional<Counted> stream_count_;
  std::atomic<bool> is_woken_ = false;
  bool is_writing_ = false;
  bool is_ended_ = false;
  asio::steady_timer keep_timer_;
};

/// A handler's way to its connection.
template <typename Stream>
class Connection<Stream>::Channel : public Reply::Channel {
 public:
  Channel(std::weak_ptr<Connection> connection, std::shared_ptr<const std::atomic<bool>> is_gone,
          uint64_t request, std::shared_ptr<Lifeline> lifeline)
      : connection_(std::move(connection)),
        is_gone_(std::move(is_gone)),
        request_(request),
        lifeline_(std::move(lifeline)) {}
  ~Channel() override { send(text_response(500, "the server gave no answer\n")); }

  void send(Response response) final {
    if (is_sent_.exchange(true)) {
      return;
    }
    const std::lock_guard lock(lifeline_->mutex);
    if (auto connection = lifeline_->is_alive ? connection_.lock() : nullptr) {
      reply(std::move(connection), request_, std::move(response));
    }
  }
  bool is_gone() const override { return *is_gone_; }

 private:
  std::weak_ptr<Connection> connection_;
  std::shared_ptr<const std::atomic<bool>> is_gone_;
  uint64_t request_;
  std::shared_ptr<Lifeline> lifeline_;
  std::atomic<bool> is_sent_ = false;
};

}  // namespace kinema::http
