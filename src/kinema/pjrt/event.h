#pragma once

#include <functional>
#include <string>

struct PJRT_Api;
struct PJRT_Event;

namespace kinema::pjrt {

/// Something the device will have finished: owned, movable, waited for or called back from.
class Event {
 public:
  Event() = default;
  Event(const PJRT_Api* api, PJRT_Event* event) : api_(api), event_(event) {}
  Event(Event&& other) noexcept;
  Event& operator=(Event&& other) noexcept;
  ~Event();

  /// Blocks until done; throws an Error with the device's message when the work failed.
  void await() const;
  bool is_ready() const;

  /// Calls `then` once, on a thread of the plugin or at once when already done. `error` is empty on
  /// success. What `then` throws is dropped: it runs where nobody could catch.
  void on_ready(std::function<void(const std::string& error)> then) const;

 private:
  const PJRT_Api* api_ = nullptr;
  PJRT_Event* event_ = nullptr;
};

}  // namespace kinema::pjrt
