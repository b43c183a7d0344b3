#include "kinema/cli/progress.h"

#include <fmt/format.h>

#include <algorithm>

#include "kinema/cli/commands.h"
#include "kinema/core/quantities.h"

namespace kinema::cli {

Progress::Progress(std::string label, int64_t total, WithoutTerminal without_terminal)
    : label_(std::move(label)),
      total_(std::max<int64_t>(total, 1)),
      has_lines_(without_terminal == WithoutTerminal::LINES && !has_terminal()) {}

void Progress::update(int64_t done, const std::string& note) {
  done_ = std::clamp<int64_t>(done, 0, total_);
  if (first_ < 0) {
    first_ = done_;
    since_first_.restart();
  }
  constexpr double kLinePause = 30;
  if (has_lines_ && since_line_.seconds() >= kLinePause && done_ < total_) {
    since_line_.restart();
    const std::optional<double> left = seconds_left();
    warn(fmt::format("{}: {} of {}{}", label_, done_, total_,
                     left ? fmt::format(", {} left", clock_text(*left)) : ""));
  }
  constexpr double kPause = 0.1;
  if (!since_drawn_ || since_drawn_->seconds() >= kPause || done_ == total_) {
    since_drawn_.emplace();
    line_.show(bar(label_, done_, total_, seconds_left(), terminal_columns() - 1, note));
  }
}

std::optional<double> Progress::seconds_left() const {
  const int64_t since = done_ - first_;
  if (first_ < 0 || since <= 0) {
    return std::nullopt;
  }
  return since_first_.seconds() / static_cast<double>(since) * static_cast<double>(total_ - done_);
}

std::string Progress::bar(const std::string& label, int64_t done, int64_t total,
                          std::optional<double> seconds_left, int columns,
                          const std::string& note) {
  const double share = static_cast<double>(done) / static_cast<double>(std::max<int64_t>(total, 1));
  std::string tail = fmt::format("{:3.0f}%  {}/{}", share * 100, done, total);
  if (seconds_left) {
    tail += fmt::format("  {} left", clock_text(*seconds_left));
  }
  constexpr int kNarrowest = 10;  // columns of the narrowest useful bar
  const auto room = [&] { return columns - static_cast<int>(label.size() + tail.size()) - 6; };
  if (!note.empty() && room() - static_cast<int>(note.size()) - 2 >= kNarrowest) {
    tail += "  " + note;
  }
  if (room() < kNarrowest) {
    return fmt::format("{}  {}", label, tail).substr(0, static_cast<size_t>(std::max(columns, 0)));
  }
  const int width = std::min(room(), 40);
  const int filled = static_cast<int>(share * width);
  std::string inside(static_cast<size_t>(filled), '=');
  if (filled < width) {
    inside += '>';
    inside.append(static_cast<size_t>(width - filled - 1), ' ');
  }
  return fmt::format("{}  [{}]  {}", label, inside, tail);
}

}  // namespace kinema::cli
