#pragma once

// Private to connection.cpp: how a connection answers, and how it ends.

#include "kinema/http/connection_type.h"

namespace kinema::http {

template <typename Stream>
void Connection<Stream>::handle() {
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

template <typename Stream>
void Connection<Stream>::run_handler(Shared& shared, const Route& route, Request& request,
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

template <typename Stream>
void Connection<Stream>::watch() {
  tcp().socket().async_wait(asio::ip::tcp::socket::wait_read,
                            [self = this->weak_from_this(), number = number_](error_code error) {
                              const auto connection = self.lock();
                              if (!error && connection && connection->number_ == number) {
                                connection->look_for_end();
                              }
                            });
}

template <typename Stream>
void Connection<Stream>::look_for_end() {
  char byte = 0;
  const ssize_t got = recv(tcp().socket().native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) {
    *is_gone_ = true;
    if (events_) {
      close();
    }
  }
}

template <typename Stream>
void Connection<Stream>::answer(uint64_t request, Response response) {
  if (request != number_ || !busy_) {
    return;  // answered already
  }
  busy_timer_.cancel();
  finish(std::move(response));
}

template <typename Stream>
void Connection<Stream>::finish(Response response) {
  for (const auto& [name, value] : cross_origin_.fields()) {
    response.headers.set(name, value);
  }
  // What was not read of a body would be taken for the next request. After a malformed header, of
  // which has_body() cannot be asked, is_keeping_ is false.
  is_keeping_ = is_keeping_ && !shared_.is_ending && (is_body_read_ || (head_ && !has_body()));
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

template <typename Stream>
void Connection<Stream>::write_piece() {
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

template <typename Stream>
void Connection<Stream>::on_written() {
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

template <typename Stream>
void Connection<Stream>::linger() {
  forget_events();
  keep_timer_.cancel();
  if constexpr (kIsTls) {
    tcp().expires_after(kLinger);
    return stream_.async_shutdown([self = this->shared_from_this()](error_code) { self->close(); });
  }
  error_code ignored;
  tcp().socket().shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
  tcp().expires_after(kLinger);
  piece_.resize(kPiece);
  drain();
}

template <typename Stream>
void Connection<Stream>::drain() {
  tcp().async_read_some(asio::buffer(piece_),
                        [self = this->shared_from_this()](error_code error, size_t) {
                          if (error) {
                            return self->close();
                          }
                          self->drain();
                        });
}

template <typename Stream>
void Connection<Stream>::close() {
  forget_events();
  keep_timer_.cancel();
  busy_timer_.cancel();
  busy_.reset();
  error_code ignored;
  tcp().socket().close(ignored);
}

}  // namespace kinema::http
