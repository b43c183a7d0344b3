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
namespace {

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

bool takes_type(const BodyRule& rule, const std::string& type) {
  return std::ranges::any_of(rule.types, [&](const std::string& one) {
    return one.ends_with("/*") ? type.starts_with(one.substr(0, one.size() - 1)) : one == type;
  });
}

/// The start of an answer, up to the empty line. Events have no length and end the connection.
std::string head_text(const Response& response, const Headers& common, int64_t length, bool keep) {
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

Response events_head(const Response& response) {
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

  void start() {
    tcp().expires_after(shared_.options.header_time);
    if constexpr (kIsTls) {
      stream_.async_handshake(asio::ssl::stream_base::server,
                              [self = this->shared_from_this()](error_code error) {
                                if (!error) {
                                  self->read_header();
                                }
                              });
    } else {
      read_header();
    }
  }

  /// From any thread: the answer of a handler. The strand releases `self`, since the destructor
  /// takes locks that the caller may hold.
  static void reply(std::shared_ptr<Connection> self, uint64_t request, Response response) {
    const auto executor = self->stream_.get_executor();
    asio::post(executor,
               [self = std::move(self), request, response = std::move(response)]() mutable {
                 self->answer(request, std::move(response));
               });
  }

 private:
  class Channel;

  beast::tcp_stream& tcp() { return beast::get_lowest_layer(stream_); }

  // ---- Reading --------------------------------------------------------------------------------
  void read_header() {
    request_ = std::make_shared<Request>();
    cross_origin_ = {};
    route_ = nullptr;
    head_.emplace();
    head_->header_limit(shared_.options.header_bytes);
    head_->body_limit(
        std::numeric_limits<uint64_t>::max());  // the route says; 1.74 takes none for 0
    wire::async_read_header(
        stream_, buffer_, *head_,
        [self = this->shared_from_this()](error_code error, size_t) { self->on_header(error); });
  }

  void on_header(error_code error) {
    if (error) {
      return on_read_error(error);
    }
    const auto& message = head_->get();
    is_keeping_ = head_->keep_alive() && !shared_.is_ending;
    request_->method = std::string(message.method_string());
    request_->target = std::string(message.target());
    request_->client = admission_->address();
    request_->is_loopback = admission_->is_loopback();
    request_->is_secure = kIsTls;
    for (const auto& field : message) {
      request_->headers.add({field.name_string().data(), field.name_string().size()},
                            {field.value().data(), field.value().size()});
    }
    try {
      choose_route();
    } catch (const Refusal& refusal) {
      return refuse(refusal);
    } catch (const std::exception& failure) {
      shared_.problem(failure.what());
      return refuse(Refusal(500, "the server failed"));
    }
    if (route_ == nullptr) {
      return;  // answered
    }
    read_body();
  }

  /// Finds the route and checks everything that the header tells. Throws a Refusal.
  void choose_route() {
    route_ = nullptr;
    request_->path = request_->target.substr(0, request_->target.find('?'));
    std::optional<Target> target = read_target(request_->target);
    if (target) {
      request_->query = std::move(target->query);
    }
    Router::Match match;
    if (target) {
      match = shared_.router.find(request_->method, target->segments);
    }
    cross_origin_ = shared_.gate.cross_origin(*request_);
    const bool is_preflight = request_->method == "OPTIONS" && !cross_origin_.fields().empty();
    const Access access = is_preflight             ? Access::OPEN
                          : match.route != nullptr ? match.route->access
                                                   : Access::TOKEN;
    if (const Gate::Verdict verdict = shared_.gate.check(*request_, access); verdict.is_refused()) {
      throw Refusal(verdict.status, verdict.message);
    }
    if (!target) {
      throw Refusal(400, "the target of the request is malformed");
    }
    if (is_preflight) {
      return finish(Response{.status = 204});
    }
    if (match.route == nullptr && !match.allowed.empty()) {
      Refusal refusal(
          405, fmt::format("{} is not possible here, only {}", request_->method, match.allowed));
      refusal.headers.add("Allow", match.allowed);
      throw refusal;
    }
    if (match.route == nullptr) {
      throw Refusal(404, "there is no such address");
    }
    request_->params = std::move(match.params);
    check_body(match.route->body);
    route_ = match.route;
  }

  bool has_body() const {
    return head_->chunked() || (head_->content_length() && *head_->content_length() > 0);
  }

  void check_body(const BodyRule& rule) const {
    if (!has_body()) {
      return;
    }
    if (!takes_type(rule, request_->media_type())) {
      throw Refusal(415, fmt::format("a body of type `{}` was sent, expected {}",
                                     request_->media_type(), fmt::join(rule.types, " or ")));
    }
    if (head_->content_length() && *head_->content_length() > static_cast<uint64_t>(rule.limit)) {
      throw Refusal(413, fmt::format("the body has {} bytes, at most {} are taken",
                                     *head_->content_length(), rule.limit));
    }
  }

  void read_body() {
    if (!has_body()) {
      is_body_read_ = true;
      return handle();
    }
    is_body_read_ = false;
    const BodyRule& rule = route_->body;
    const auto bytes = static_cast<int64_t>(
        head_->content_length() ? *head_->content_length() : static_cast<uint64_t>(rule.limit));
    const auto time =
        shared_.options.body_time +
        std::chrono::seconds(bytes / std::max<int64_t>(1, shared_.options.body_bytes_per_second));
    if (equal_without_case(request_->headers.get("expect"), "100-continue")) {
      static constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
      tcp().expires_after(shared_.options.write_time);
      asio::async_write(stream_, asio::buffer(kContinue.data(), kContinue.size()),
                        [self = this->shared_from_this(), time](error_code error, size_t) {
                          if (!error) {
                            self->read_content(time);
                          }
                        });
      return;
    }
    read_content(time);
  }

  void read_content(std::chrono::milliseconds time) {
    tcp().expires_after(time);
    if (!route_->body.to_file) {
      text_.emplace(std::move(*head_));
      head_.reset();
      text_->body_limit(static_cast<uint64_t>(route_->body.limit));
      wire::async_read(stream_, buffer_, *text_,
                       [self = this->shared_from_this()](error_code error, size_t) {
                         if (error) {
                           return self->on_read_error(error);
                         }
                         self->request_->body = std::move(self->text_->get().body());
                         self->is_body_read_ = true;
                         self->handle();
                       });
      return;
    }
    try {
      request_->file = std::make_shared<ReceivedFile>(shared_.options.upload_folder);
    } catch (const std::exception& error) {
      shared_.problem(error.what());
      return refuse(Refusal(507, "no file can be stored"));
    }
    file_.emplace(std::move(*head_));
    head_.reset();
    piece_.resize(kPiece);
    file_->body_limit(static_cast<uint64_t>(route_->body.limit));
    read_to_file();
  }

  /// Into the file piece by piece: the body is never in memory.
  void read_to_file() {
    file_->get().body().data = piece_.data();
    file_->get().body().size = piece_.size();
    wire::async_read(stream_, buffer_, *file_,
                     [self = this->shared_from_this()](error_code error, size_t) {
                       self->on_file_piece(error);
                     });
  }

  void on_file_piece(error_code error) {
    if (error && error != wire::error::need_buffer) {
      return on_read_error(error);
    }
    const size_t size = piece_.size() - file_->get().body().size;
    const int failure =
        io::write_all(request_->file->file(), std::as_bytes(std::span(piece_.data(), size)));
    if (failure != 0) {
      shared_.problem(fmt::format("an upload cannot be stored: {}", std::strerror(failure)));
      return refuse(Refusal(507, "the upload cannot be stored: the disk is full or fails"));
    }
    if (!file_->is_done()) {
      return read_to_file();
    }
    request_->file->file().close();
    is_body_read_ = true;
    handle();
  }

  void on_read_error(error_code error) {
    if (error == wire::error::body_limit) {
      return refuse(Refusal(413, fmt::format("the body has more than {} bytes",
                                             route_ == nullptr ? 0 : route_->body.limit)));
    }
    if (error == wire::error::header_limit || error == wire::error::buffer_overflow) {
      return refuse(Refusal(
          431, fmt::format("the header has more than {} bytes", shared_.options.header_bytes)));
    }
    const bool is_malformed =
        error.category() == wire::make_error_code(wire::error::bad_method).category() &&
        error != wire::error::end_of_stream && error != wire::error::partial_message;
    if (is_malformed) {
      return refuse(Refusal(400, "the request is malformed: " + error.message()));
    }
    close();
  }

  // ---- Answering ------------------------------------------------------------------------------
  void handle() {
    busy_.emplace(shared_.busy);
    ++number_;
    tcp().expires_never();
    // Keeps this alive until the answer; unlike a reference to itself, it ends with the server.
    busy_timer_.expires_at(asio::steady_timer::time_point::max());
    busy_timer_.async_wait([self = this->shared_from_this()](error_code) {});
    watch();
    const Reply reply(
        std::make_shared<Channel>(this->weak_from_this(), is_gone_, number_, shared_.lifeline));
    asio::post(shared_.workers, [&shared = shared_, route = route_, request = request_, reply] {
      run_handler(shared, *route, *request, reply);
    });
  }

  static void run_handler(Shared& shared, const Route& route, Request& request,
                          const Reply& reply) {
    try {
      route.handler(request, reply);
    } catch (const Refusal& refusal) {
      reply.send(shared.error(request, refusal));
    } catch (const Error& error) {
      reply.send(shared.error(request, Refusal(400, error.what())));
    } catch (const std::exception& error) {
      shared.problem(fmt::format("{} {}: {}", request.method, route.pattern, error.what()));
      reply.send(shared.error(request, Refusal(500, "the server failed")));
    }
  }

  /// Notices a client that leaves while its answer is made, without reading what it sends.
  void watch() {
    tcp().socket().async_wait(asio::ip::tcp::socket::wait_read,
                              [self = this->weak_from_this(), number = number_](error_code error) {
                                const auto connection = self.lock();
                                if (!error && connection && connection->number_ == number) {
                                  connection->look_for_end();
                                }
                              });
  }

  void look_for_end() {
    char byte = 0;
    const ssize_t got = recv(tcp().socket().native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) {
      *is_gone_ = true;
      if (events_) {
        close();
      }
    }
  }

  void answer(uint64_t request, Response response) {
    if (request != number_ || !busy_) {
      return;  // answered already
    }
    busy_timer_.cancel();
    finish(std::move(response));
  }

  void refuse(const Refusal& refusal) { finish(shared_.error(*request_, refusal)); }

  void finish(Response response) {
    for (const auto& [name, value] : cross_origin_.fields()) {
      response.headers.set(name, value);
    }
    // What was not read of a body would be taken for the next request.
    const bool is_at_end = is_body_read_ || (head_ && !has_body());
    is_keeping_ = is_keeping_ && is_at_end && !shared_.is_ending;
    if (response.events && request_->method != "HEAD") {
      return begin_events(std::move(response));
    }
    const bool is_head = request_->method == "HEAD";
    const int64_t length = response.file.file ? response.file.end - response.file.begin
                                              : static_cast<int64_t>(response.body.size());
    out_ = head_text(response, shared_.options.headers, length, is_keeping_);
    rest_ = is_head ? FileSlice{} : std::move(response.file);
    if (!is_head) {
      out_ += response.body;
    }
    sent_ = 0;
    write_piece();
  }

  /// Sends `out_` and then the file, in pieces that each have the time of `write_time`.
  void write_piece() {
    if (sent_ == out_.size() && rest_.begin < rest_.end) {
      out_.resize(static_cast<size_t>(std::min<int64_t>(kPiece, rest_.end - rest_.begin)));
      const ssize_t got = pread(rest_.file->get(), out_.data(), out_.size(), rest_.begin);
      if (got <= 0) {
        return close();  // it was cut; the client sees that bytes are missing
      }
      out_.resize(static_cast<size_t>(got));
      rest_.begin += got;
      sent_ = 0;
    }
    if (sent_ == out_.size()) {
      return on_written();
    }
    const size_t size = std::min(kPiece, out_.size() - sent_);
    tcp().expires_after(shared_.options.write_time);
    asio::async_write(stream_, asio::buffer(out_.data() + sent_, size),
                      [self = this->shared_from_this(), size](error_code error, size_t) {
                        if (error) {
                          return self->close();
                        }
                        self->sent_ += size;
                        self->write_piece();
                      });
  }

  void on_written() {
    busy_.reset();
    out_ = {};
    rest_ = {};
    text_.reset();
    file_.reset();
    request_.reset();
    is_body_read_ = false;
    if (!is_keeping_) {
      return linger();
    }
    tcp().expires_after(shared_.options.idle_time);
    read_header();
  }

  // ---- Events ---------------------------------------------------------------------------------
  void begin_events(Response response) {
    if (shared_.streams >= shared_.options.streams) {
      Refusal refusal(503, "there are too many event streams: close other pages");
      refusal.headers.add("Retry-After", "10");
      return refuse(refusal);
    }
    stream_count_.emplace(shared_.streams);
    busy_.reset();  // a stream ends by itself
    is_keeping_ = false;
    events_ = response.events;
    cursor_ = response.events_after;
    out_ = head_text(events_head(response), shared_.options.headers, -1, /*keep=*/false);
    listener_ = events_->listen([weak = this->weak_from_this(), lifeline = shared_.lifeline] {
      const std::lock_guard lock(lifeline->mutex);
      auto self = lifeline->is_alive ? weak.lock() : nullptr;
      if (self && !self->is_woken_.exchange(true)) {
        const auto executor = self->stream_.get_executor();
        asio::post(executor, [self = std::move(self)] { self->on_woken(); });
      } else if (self) {
        // Released by its own strand: the destructor would call `forget`.
        const auto executor = self->stream_.get_executor();
        asio::post(executor, [self = std::move(self)] {});
      }
    });
    keep();
    write_events();
  }

  void on_woken() {
    is_woken_ = false;
    if (!is_writing_) {
      write_events();
    }
  }

  /// Sends the head or the next events; without any, waits to be woken.
  void write_events() {
    if (!events_) {
      return;
    }
    if (out_.empty()) {
      EventStream::Piece piece = events_->read(cursor_, kPiece);
      cursor_ = piece.last;
      is_ended_ = piece.ended;
      out_ = std::move(piece.text);
    }
    if (out_.empty()) {
      if (is_ended_) {
        linger();
      }
      return;
    }
    is_writing_ = true;
    tcp().expires_after(shared_.options.write_time);
    asio::async_write(stream_, asio::buffer(out_),
                      [self = this->shared_from_this()](error_code error, size_t) {
                        self->is_writing_ = false;
                        self->out_.clear();
                        if (error) {
                          return self->close();
                        }
                        self->tcp().expires_never();
                        self->write_events();
                      });
  }

  /// Comments in a quiet stream, by which both sides notice a broken connection.
  void keep() {
    keep_timer_.expires_after(shared_.options.keep_time);
    keep_timer_.async_wait([self = this->shared_from_this()](error_code error) {
      if (error || !self->events_) {
        return;
      }
      if (!self->is_writing_ && self->out_.empty()) {
        self->out_ = ": keep\n\n";
        self->write_events();
      }
      self->keep();
    });
  }

  void forget_events() {
    if (events_) {
      events_->forget(listener_);
      events_.reset();
      stream_count_.reset();
    }
  }

  // ---- Ending ---------------------------------------------------------------------------------
  /// Closes for writing and throws away what still comes, for a moment: closing at once would make
  /// the client see a reset instead of the answer.
  void linger() {
    forget_events();
    keep_timer_.cancel();
    if constexpr (kIsTls) {
      tcp().expires_after(kLinger);
      return stream_.async_shutdown(
          [self = this->shared_from_this()](error_code) { self->close(); });
    }
    error_code ignored;
    tcp().socket().shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
    tcp().expires_after(kLinger);
    piece_.resize(kPiece);
    drain();
  }
  void drain() {
    tcp().async_read_some(asio::buffer(piece_),
                          [self = this->shared_from_this()](error_code error, size_t) {
                            if (error) {
                              return self->close();
                            }
                            self->drain();
                          });
  }
  void close() {
    forget_events();
    keep_timer_.cancel();
    busy_timer_.cancel();
    busy_.reset();
    error_code ignored;
    tcp().socket().close(ignored);
  }

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

}  // namespace

void serve_plain(Shared& shared, asio::ip::tcp::socket socket,
                 std::unique_ptr<Admission> admission) {
  const auto executor = socket.get_executor();
  const auto connection = std::make_shared<Connection<beast::tcp_stream>>(
      shared, std::move(admission), std::move(socket));
  asio::post(executor, [connection] { connection->start(); });
}

void serve_tls(Shared& shared, asio::ip::tcp::socket socket, std::unique_ptr<Admission> admission) {
  const auto executor = socket.get_executor();
  const auto connection = std::make_shared<Connection<beast::ssl_stream<beast::tcp_stream>>>(
      shared, std::move(admission), std::move(socket), shared.tls);
  asio::post(executor, [connection] { connection->start(); });
}

}  // namespace kinema::http
