#include "kinema/http/events.h"

#include <fmt/format.h>

#include <charconv>
#include <utility>

namespace kinema::http {

EventStream::EventStream(uint64_t first, size_t kept) : kept_(kept), last_(first) {}

uint64_t EventStream::publish(std::string_view name, std::string_view data) {
  uint64_t id = 0;
  {
    const std::lock_guard lock(mutex_);
    id = ++last_;
    events_.push_back(event_text(id, name, data));
    if (events_.size() > kept_) {
      events_.pop_front();
    }
  }
  wake_all();
  return id;
}

void EventStream::end() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  wake_all();
}

uint64_t EventStream::last() const {
  const std::lock_guard lock(mutex_);
  return last_;
}

EventStream::Piece EventStream::read(uint64_t after, size_t bytes) const {
  const std::lock_guard lock(mutex_);
  Piece out{.last = last_};
  const uint64_t before_first = last_ - events_.size();
  if (after < before_first || after > last_) {
    out.text = event_text(last_, "reset", "{}");
    out.ended = ended_;
    return out;
  }
  size_t i = after - before_first;
  do {
    if (i == events_.size()) {
      break;
    }
    out.text += events_[i++];
  } while (i < events_.size() && out.text.size() + events_[i].size() <= bytes);
  out.last = before_first + i;
  out.ended = ended_ && i == events_.size();
  return out;
}

uint64_t EventStream::listen(std::function<void()> wake) {
  const std::lock_guard lock(listeners_mutex_);
  listeners_.emplace(++next_listener_, std::move(wake));
  return next_listener_;
}

void EventStream::forget(uint64_t listener) {
  const std::lock_guard lock(listeners_mutex_);
  listeners_.erase(listener);
}

void EventStream::wake_all() {
  const std::lock_guard lock(listeners_mutex_);
  for (const auto& [id, wake] : listeners_) {
    wake();
  }
}

std::string event_text(uint64_t id, std::string_view name, std::string_view data) {
  std::string out;
  if (id > 0) {
    out += fmt::format("id: {}\n", id);
  }
  if (!name.empty()) {
    out += fmt::format("event: {}\n", name);
  }
  while (true) {
    const size_t end = data.find_first_of("\r\n");
    out += fmt::format("data: {}\n", data.substr(0, end));
    if (end == data.npos) {
      return out + "\n";
    }
    data.remove_prefix(end + (data.substr(end).starts_with("\r\n") ? 2 : 1));
  }
}

uint64_t read_event_id(std::string_view text) {
  uint64_t out = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size() ? out : 0;
}

}  // namespace kinema::http
