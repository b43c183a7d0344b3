#include "kinema/serve/sharing.h"

#include <filesystem>
#include <fstream>

namespace kinema::serve {
namespace {

namespace fs = std::filesystem;

/// By the files of their drivers: this process loads no plugin.
bool has_accelerator() {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/dev", error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("nvidia0") || name.starts_with("accel")) {
      return true;
    }
  }
  return false;
}

/// True if less than an eighth of the machine's memory is available.
bool is_memory_scarce() {
  std::ifstream in("/proc/meminfo");
  int64_t total = 0;
  int64_t available = 0;
  for (std::string name; in >> name;) {
    int64_t kilobytes = 0;
    in >> kilobytes;
    in.ignore(64, '\n');
    total = name == "MemTotal:" ? kilobytes : total;
    available = name == "MemAvailable:" ? kilobytes : available;
  }
  return available < total / 8;
}

}  // namespace

bool Sharing::is_exclusive(const EngineState& engine) const {
  if (when_ != WhileTraining::AUTO) {
    return when_ == WhileTraining::EXCLUSIVE;
  }
  return engine.platform.empty() ? has_accelerator() : engine.platform != "cpu";
}

void Sharing::begin(const std::string& name) {
  const std::lock_guard lock(mutex_);
  held_ = "training " + name;
  next_look_ = std::chrono::steady_clock::now() + std::chrono::seconds(1);
}

std::string Sharing::hold(Runs& runs, const EngineState& engine) {
  const std::lock_guard lock(mutex_);
  const auto time = std::chrono::steady_clock::now();
  if (when_ == WhileTraining::SHARE || time < next_look_) {
    return held_;
  }
  next_look_ = time + std::chrono::seconds(1);
  const std::vector<std::string> running = runs.running();
  // Once it is held it stays so until the run ends, else the model would come and go.
  const bool holds =
      !running.empty() && (!held_.empty() || is_exclusive(engine) || is_memory_scarce());
  held_ = holds ? "training " + running.front() : "";
  return held_;
}

}  // namespace kinema::serve
