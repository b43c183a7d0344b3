#include "kinema/training/background.h"

#include <chrono>
#include <utility>

#include "kinema/core/parallel.h"
#include "kinema/core/thread_priority.h"
#include "kinema/core/trace.h"

namespace kinema::training {

Background::~Background() {
  if (running_.valid()) {
    running_.wait();
  }
}

void Background::start(std::function<std::string()> work) {
  finish();
  running_ = in_background(
      [] {
        lower_thread_priority();
        trace::name_thread("checkpoint");
      },
      [work = std::move(work)] {
        const trace::Scope span("write checkpoint");
        return work();
      });
}

std::optional<std::string> Background::poll() {
  const bool ended =
      running_.valid() && running_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  return ended ? finish() : std::nullopt;
}

std::optional<std::string> Background::finish() {
  return running_.valid() ? std::optional(running_.get()) : std::nullopt;
}

}  // namespace kinema::training
