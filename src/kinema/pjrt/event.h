#pragma once

#include <functional>
#include <string>

struct PJRT_Api;
struct PJRT_Event;

namespace kinema::pjrt {

/// The future end of a device operation: owned, movable, with wait and callback.
class Event {
 public:
  Event() = default;
  Event(const PJRT_Api* api, PJRT_Event* event) : api_(api), event_(event) {}
  Event(Event&& other) noexcept;
  Event& operator=(Event&& other) noexcept;
  ~Event();

  /// Blocks until done; throws an Error with the device's message if the operation failed.
  void await() const;
  bool is_ready() const;

  /// Calls `then` once, on a thread of the plugin, or immediately if already done. `error` is empty
  /// on success. Exceptions of `then` are dropped, because nothing could catch them.
  void on_ready(std::function<void(const std::string& error)> then) const;

 private:
  const PJRT_Api* api_ = nullptr;
  PJRT_Event* event_ = nullptr;
};

}  // namespace kinema::pjrt
