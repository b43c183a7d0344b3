#include <fmt/format.h>

#include <algorithm>

#include "kinema/io/json.h"
#include "kinema/verification/verify.h"

namespace kinema::verification {

bool Report::ok() const {
  const auto counts = [](const Row& row) { return !row.unsupported; };
  return std::ranges::any_of(rows, counts) &&
         std::ranges::all_of(rows, [](const Row& row) { return row.ok || row.unsupported; });
}

std::string to_json(const Report& report) {
  io::Json cases = io::Json::array();
  for (const Row& row : report.rows) {
    cases.append(io::Json::object({{"case", row.name},
                                   {"tensor", row.tensor},
                                   {"max_diff", row.max_diff},
                                   {"rms_diff", row.rms_diff},
                                   {"limit", row.limit},
                                   {"ok", row.ok},
                                   {"unsupported", row.unsupported}}));
  }
  return io::Json::object({{"cases", std::move(cases)}}).dump();
}

std::string to_table(const Report& report) {
  size_t wide_name = 4;
  size_t wide_tensor = 6;
  for (const Row& row : report.rows) {
    wide_name = std::max(wide_name, row.name.size());
    wide_tensor = std::max(wide_tensor, row.tensor.size());
  }
  std::string out = fmt::format("{:<{}}  {:<{}}  {:>9}  {:>9}  {:>9}  ok\n", "case", wide_name,
                                "tensor", wide_tensor, "max diff", "rms diff", "limit");
  int64_t passed = 0;
  int64_t missed = 0;
  int64_t unsupported = 0;
  for (const Row& row : report.rows) {
    out += fmt::format("{:<{}}  {:<{}}  ", row.name, wide_name, row.tensor, wide_tensor);
    if (row.unsupported) {
      ++unsupported;
      out += fmt::format("{:>9}  {:>9}  {:>9}  unsupported\n", "-", "-", "-");
      continue;
    }
    ++(row.ok ? passed : missed);
    if (!row.compared) {
      out += fmt::format("{:>9}  {:>9}  {:>9}  MISSED\n    {}\n", "-", "-", "-", row.message);
      continue;
    }
    out += fmt::format("{:>9.2e}  {:>9.2e}  {:>9.2e}  {}\n", row.max_diff, row.rms_diff, row.limit,
                       row.ok ? "ok" : "MISSED");
    if (!row.message.empty()) {
      out += fmt::format("    {}\n", row.message);
    }
  }
  out += fmt::format("{} ok, {} missed, {} unsupported\n", passed, missed, unsupported);
  return out;
}

}  // namespace kinema::verification
