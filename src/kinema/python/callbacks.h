#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <string>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/job/job.h"

namespace kinema::python {

namespace nb = nanobind;

/// The callables of a call, by the names of the observer's members (`on_step`); some may be absent.
/// Shared by the calling thread and the job's threads. All members but the constructor need the
/// GIL or take it.
class Callbacks {
 public:
  explicit Callbacks(nb::dict callables) : callables_(std::move(callables)) {}

  /// The caller is gone: from now on `call` throws Stopped. Needs the GIL.
  void release() { callables_.reset(); }

  bool has(const char* name) const { return callables_.is_valid() && callables_.contains(name); }

  /// Calls one with values that Python can have. What it raises is thrown as nb::python_error.
  template <typename... Values>
  void call(const char* name, Values&&... values) const {
    const nb::gil_scoped_acquire locked;
    if (!callables_.is_valid()) {
      throw Stopped();
    }
    if (callables_.contains(name)) {
      callables_[name](std::forward<Values>(values)...);
    }
  }

 private:
  nb::dict callables_;
};

using SharedCallbacks = std::shared_ptr<Callbacks>;

/// Connects on_notice, on_line and on_task (what, done, total, note).
void listen(Observer& observer, const SharedCallbacks& callbacks);

}  // namespace kinema::python
