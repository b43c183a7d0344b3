// Effective flags as text and as JSON.
#include <fmt/format.h>

#include <string_view>

#include "kinema/flags/effective.h"

namespace kinema::flags {
namespace {

io::Json settings_json(const Effective& effective, bool all) {
  io::Json flags = io::Json::object();
  for (const auto& [name, setting] : effective.settings) {
    if (all || setting.is_given()) {
      flags.set(
          name,
          io::Json::object().set("value", setting.top().value).set("origin", setting.top().origin));
    }
  }
  return flags;
}

}  // namespace

io::Json given_json(const Effective& effective) {
  return io::Json::object()
      .set("platform", effective.platform.text())
      .set("given", settings_json(effective, /*all=*/false));
}

io::Json to_json(const Effective& effective) {
  io::Json findings = io::Json::array();
  constexpr std::string_view kNames[] = {"note", "warning", "error"};
  for (const Finding& finding : effective.findings) {
    findings.append(io::Json::object()
                        .set("rule", finding.id)
                        .set("severity", kNames[static_cast<size_t>(finding.severity)])
                        .set("allowed", finding.allowed)
                        .set("what", finding.what)
                        .set("remedy", finding.remedy)
                        .set("evidence", finding.evidence));
  }
  return io::Json::object()
      .set("platform", effective.platform.text())
      .set("flags", settings_json(effective, /*all=*/true))
      .set("findings", std::move(findings));
}

std::string to_text(const Effective& effective, bool all) {
  std::string out;
  for (const auto& [name, setting] : effective.settings) {
    if (all || setting.is_given()) {
      const Layer& top = setting.top();
      out +=
          fmt::format("{:<72}  # {}\n", fmt::format("{}={}", name, top.value),
                      setting.is_given() ? top.origin : "default of " + effective.platform.text());
    }
  }
  return out;
}

std::string to_text(const Finding& finding) {
  constexpr std::string_view kNames[] = {"note", "warning", "error"};
  std::string out = fmt::format(
      "{} [{}] {}", finding.allowed ? "allowed" : kNames[static_cast<size_t>(finding.severity)],
      finding.id, finding.what);
  if (!finding.remedy.empty()) {
    out += "\n  " + finding.remedy;
  }
  return out;
}

}  // namespace kinema::flags
