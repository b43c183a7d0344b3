#include "kinema/python/callbacks.h"

namespace kinema::python {
namespace {

class PythonTask : public Task {
 public:
  PythonTask(SharedCallbacks callbacks, std::string what, int64_t total)
      : callbacks_(std::move(callbacks)), what_(std::move(what)), total_(total) {
    update(0);
  }
  void update(int64_t done, const std::string& note = {}) override {
    callbacks_->call("on_task", what_, done, total_, note);
  }

 private:
  SharedCallbacks callbacks_;
  std::string what_;
  int64_t total_;
};

}  // namespace

void listen(Observer& observer, const SharedCallbacks& callbacks) {
  observer.on_notice = [callbacks](const std::string& line) { callbacks->call("on_notice", line); };
  observer.on_line = [callbacks](const std::string& line) { callbacks->call("on_line", line); };
  if (callbacks->has("on_task")) {
    observer.on_task = [callbacks](const std::string& what,
                                   int64_t total) -> std::unique_ptr<Task> {
      return std::make_unique<PythonTask>(callbacks, what, total);
    };
  }
}

}  // namespace kinema::python
