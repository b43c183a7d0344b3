#include "kinema/verification/counting.h"

#include <fmt/format.h>

namespace kinema::verification {

Count::Count(const Case& c, const std::string& tensor)
    : row{.name = c.name(), .tensor = tensor, .ok = true} {}

void Count::add(bool same, const std::string& prompt, const std::string& got,
                const std::string& want) {
  if (!same) {
    row.max_diff += 1.0;
    row.ok = false;
    if (row.message.empty()) {
      row.message = fmt::format("prompt `{}`: {}, the reference has {}", prompt, got, want);
    }
  }
}

void Count::add(const std::string& prompt, const std::vector<int64_t>& got,
                const std::vector<int64_t>& want) {
  add(got == want, prompt, fmt::format("{}", fmt::join(got, " ")),
      fmt::format("{}", fmt::join(want, " ")));
}

void Count::add(const std::string& prompt, const std::vector<std::string>& got,
                const std::vector<std::string>& want) {
  add(got == want, prompt, fmt::format("{}", fmt::join(got, " ")),
      fmt::format("{}", fmt::join(want, " ")));
}

std::vector<std::string> strings(const io::Json& list) {
  std::vector<std::string> out;
  for (const io::Json& item : list.items()) {
    out.push_back(item.as_string());
  }
  return out;
}

}  // namespace kinema::verification
