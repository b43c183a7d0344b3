#include "kinema/cli/observing.h"

#include <utility>

#include "kinema/cli/commands.h"
#include "kinema/cli/console.h"
#include "kinema/cli/progress.h"
#include "kinema/cli/waiting.h"

namespace kinema::cli {
namespace {

class Bar : public Task {
 public:
  Bar(const std::string& what, int64_t total) : progress_(what, total) {}
  void update(int64_t done, const std::string& note) override { progress_.update(done, note); }

 private:
  Progress progress_;
};

class Wait : public Task {
 public:
  explicit Wait(const std::string& what) : waiting_(what) {}

 private:
  Waiting waiting_;
};

}  // namespace

void show_on_console(Observer& observer, bool with_lines) {
  observer.on_notice = warn;
  if (with_lines) {
    observer.on_line = print_line;
  }
  observer.on_task = [](const std::string& what, int64_t total) -> std::unique_ptr<Task> {
    if (total > 0) {
      return std::make_unique<Bar>(what, total);
    }
    return std::make_unique<Wait>(what);
  };
}

JobOptions job_options(std::stop_token stop) {
  return {.stop = std::move(stop), .program = "/proc/self/exe"};
}

Job console_job(std::shared_ptr<world::World> world) {
  Observer observer;
  if (!world || world->is_first()) {
    show_on_console(observer, /*with_lines=*/true);
  }
  JobOptions options = job_options();
  options.world = std::move(world);
  return {observer, std::move(options)};
}

}  // namespace kinema::cli
