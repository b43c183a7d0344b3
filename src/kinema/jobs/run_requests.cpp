#include "kinema/jobs/run_requests.h"

#include <system_error>

namespace kinema::jobs {
namespace {

/// True if there was such a file.
bool take_file(const std::filesystem::path& file) {
  std::error_code error;
  return std::filesystem::remove(file, error) && !error;
}

}  // namespace

RunRequests::RunRequests(const std::filesystem::path& run, const Job& job)
    : folder_(run / "requests"), is_alone_(job.world().is_alone()) {
  if (is_alone_) {
    take_file(folder_ / "save");
    take_file(folder_ / "sample");
  }
}

training::Asked RunRequests::take() {
  constexpr double kPause = 0.25;  // seconds
  if (!is_alone_ || since_.seconds() < kPause) {
    return {};
  }
  since_.restart();
  return {.save = take_file(folder_ / "save"), .sample = take_file(folder_ / "sample")};
}

}  // namespace kinema::jobs
