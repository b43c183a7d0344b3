#pragma once

// Private to connection.cpp: how a connection reads a request.

#include "kinema/http/connection_type.h"

namespace kinema::http {

template <typename Stream>
void Connection<Stream>::start() {
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

template <typename Stream>
void Connection<Stream>::reply(std::shared_ptr<Connection> self, uint64_t request,
                               Response response) {
  const auto executor = self->stream_.get_executor();
  asio::post(executor, [self = std::move(self), request, response = std::move(response)]() mutable {
    self->answer(request, std::move(response));
  });
}

template <typename Stream>
void Connection<Stream>::read_header() {
  request_ = std::make_shared<Request>();
  cross_origin_ = {};
  route_ = nullptr;
  is_keeping_ = false;
  is_body_read_ = false;
  head_.emplace();
  head_->header_limit(shared_.options.header_bytes);
  head_->body_limit(std::numeric_limits<uint64_t>::max());  // the route says; 1.74 takes none for 0
  wire::async_read_header(
      stream_, buffer_, *head_,
      [self = this->shared_from_this()](error_code error, size_t) { self->on_header(error); });
}

template <typename Stream>
void Connection<Stream>::on_header(error_code error) {
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

template <typename Stream>
void Connection<Stream>::choose_route() {
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

template <typename Stream>
bool Connection<Stream>::has_body() const {
  return head_->chunked() || (head_->content_length() && *head_->content_length() > 0);
}

template <typename Stream>
void Connection<Stream>::check_body(const BodyRule& rule) const {
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

template <typename Stream>
void Connection<Stream>::read_body() {
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

template <typename Stream>
void Connection<Stream>::read_content(std::chrono::milliseconds time) {
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

template <typename Stream>
void Connection<Stream>::read_to_file() {
  file_->get().body().data = piece_.data();
  file_->get().body().size = piece_.size();
  wire::async_read(
      stream_, buffer_, *file_,
      [self = this->shared_from_this()](error_code error, size_t) { self->on_file_piece(error); });
}

template <typename Stream>
void Connection<Stream>::on_file_piece(error_code error) {
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

template <typename Stream>
void Connection<Stream>::on_read_error(error_code error) {
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

}  // namespace kinema::http
