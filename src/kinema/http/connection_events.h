#pragma once

// Private to connection.cpp: how a connection sends events.

#include "kinema/http/connection_type.h"

namespace kinema::http {

template <typename Stream>
void Connection<Stream>::begin_events(Response response) {
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

template <typename Stream>
void Connection<Stream>::on_woken() {
  is_woken_ = false;
  if (!is_writing_) {
    write_events();
  }
}

template <typename Stream>
void Connection<Stream>::write_events() {
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

template <typename Stream>
void Connection<Stream>::keep() {
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

template <typename Stream>
void Connection<Stream>::forget_events() {
  if (events_) {
    events_->forget(listener_);
    events_.reset();
    stream_count_.reset();
  }
}

}  // namespace kinema::http
