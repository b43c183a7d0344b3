#include "train/background.h"

#include <chrono>
#include <utility>

#include "core/give_way.h"
#include "core/trace.h"

namespace kinema::train {

Background::~Background() {
  if (running_.valid()) {
    running_.wait();
  }
}

void Background::start(std::function<void()> work) {
  finish();
  running_ = std::async(std::launch::async, [work = std::move(work)] {
    give_way();
    trace::name_thread("checkpoint");
    const trace::Scope span("write checkpoint");
    work();
  });
}

bool Background::poll() {
  return running_.valid() &&
         running_.wait_for(std::chrono::seconds(0)) == std::future_status::ready && finish();
}

bool Background::finish() {
  const bool any = running_.valid();
  if (any) {
    running_.get();
  }
  return any;
}

}  // namespace kinema::train
