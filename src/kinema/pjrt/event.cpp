#include "kinema/pjrt/event.h"

#include <memory>
#include <utility>

#include "kinema/pjrt/api.h"

namespace kinema::pjrt {
namespace {

struct Continuation {
  const PJRT_Api* api;
  std::function<void(const std::string&)> then;
};

void continue_with(PJRT_Error* error, void* user_arg) {
  const std::unique_ptr<Continuation> given(static_cast<Continuation*>(user_arg));
  ignoring_errors([&] { given->then(error == nullptr ? "" : take_message(*given->api, error)); });
}

void destroy(const PJRT_Api* api, PJRT_Event* event) noexcept {
  if (event != nullptr) ignoring_errors([&] { KINEMA_PJRT(*api, Event_Destroy, .event = event); });
}

}  // namespace

Event::Event(Event&& other) noexcept
    : api_(other.api_), event_(std::exchange(other.event_, nullptr)) {}

Event& Event::operator=(Event&& other) noexcept {
  if (this != &other) {
    destroy(api_, event_);
    api_ = other.api_;
    event_ = std::exchange(other.event_, nullptr);
  }
  return *this;
}

Event::~Event() { destroy(api_, event_); }

void Event::await() const {
  if (event_ != nullptr) KINEMA_PJRT(*api_, Event_Await, .event = event_);
}

bool Event::is_ready() const {
  return event_ == nullptr || KINEMA_PJRT(*api_, Event_IsReady, .event = event_).is_ready;
}

void Event::on_ready(std::function<void(const std::string&)> then) const {
  if (event_ == nullptr) {
    ignoring_errors([&] { then(""); });
    return;
  }
  auto continuation = std::make_unique<Continuation>(Continuation{api_, std::move(then)});
  KINEMA_PJRT(*api_, Event_OnReady, .event = event_, .callback = continue_with,
              .user_arg = continuation.get());
  static_cast<void>(continuation.release());  // owned by the callback
}

}  // namespace kinema::pjrt
