#include "kinema/core/quantities.h"

#include <fmt/format.h>

namespace kinema {

std::string clock_text(double seconds) {
  const auto whole = static_cast<int64_t>(seconds);
  if (whole >= 3600) {
    return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
  }
  return fmt::format("{}:{:02}", whole / 60, whole % 60);
}

std::string count_text(int64_t count) {
  if (count < 1000) {
    return fmt::format("{}", count);
  }
  constexpr const char* kUnits[] = {"k", "M", "B", "T"};
  auto value = static_cast<double>(count);
  size_t unit = 0;
  // 999.5 would be printed as 1e+03.
  for (value /= 1000; value >= 999.5 && unit + 1 < std::size(kUnits); value /= 1000) {
    ++unit;
  }
  return fmt::format("{:#.3g} {}", value, kUnits[unit]);
}

std::string counted(int64_t count, std::string_view thing) {
  return fmt::format("{} {}{}", count, thing, count == 1 ? "" : "s");
}

}  // namespace kinema
