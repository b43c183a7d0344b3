#include "kinema/metrics/metrics_chunks.h"

#include <fmt/format.h>

#include <utility>

#include "kinema/io/atomic_write.h"
#include "kinema/io/folder.h"

namespace kinema::metrics {

MetricsChunks::MetricsChunks(std::filesystem::path folder, int64_t period)
    : folder_(std::move(folder)), period_(period) {
  io::make_folder(folder_);
}

void MetricsChunks::add(int64_t step, const std::string& line) {
  first_ = lines_ == 0 ? step : first_;
  last_ = step;
  held_ += line + "\n";
  if (++lines_ == period_) {
    finish();
  }
}

void MetricsChunks::finish() {
  if (lines_ > 0) {
    io::write_file(folder_ / fmt::format("metrics_step_{:06}_to_step_{:06}.txt", first_, last_),
                   held_);
    held_.clear();
    lines_ = 0;
  }
}

}  // namespace kinema::metrics
