#include "kinema/flags/guard.h"

#include <fmt/format.h>

#include <charconv>
#include <sstream>

namespace kinema::flags {
namespace {

bool holds(const Condition& condition, const std::string& value) {
  int64_t number = 0;
  const auto [rest, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  const bool is_number = error == std::errc() && rest == value.data() + value.size();
  switch (condition.test) {
    case Test::ON:
      return is_on(value);
    case Test::OFF:
      return value == "false" || value == "DISABLED" || value == "0";
    case Test::AT_LEAST:
      return is_number && number >= condition.bound;
    case Test::AT_MOST:
      break;
  }
  return is_number && number <= condition.bound;
}

bool names_chip(std::string_view chips, const std::string& chip) {
  std::istringstream in{std::string(chips)};
  for (std::string each; in >> each;) {
    if (each == chip) {
      return true;
    }
  }
  return chips.empty() || chip.empty();
}

bool applies(const Rule& rule, const Effective& effective) {
  const Platform& platform = effective.platform;
  if ((rule.backend != Backend::ANY && rule.backend != platform.backend) ||
      (rule.deterministic && !effective.deterministic) ||
      (!rule.since.empty() && compare_versions(platform.table_version(), rule.since) < 0) ||
      !names_chip(rule.chips, platform.chip)) {
    return false;
  }
  for (const Condition& condition : rule.when) {
    if (!holds(condition, effective.value(condition.flag))) {
      return false;
    }
  }
  return true;
}

/// How to remove a layer, as text.
std::string removal(const std::string& name, const Layer& layer) {
  return layer.word.empty() ? fmt::format("remove {} from {}", name, layer.origin)
                            : fmt::format("remove {} from {}", layer.word, layer.origin);
}

/// Proposes the change of one flag that stops the rule: removing what was given, if that is enough.
void propose_change(const Rule& rule, const Effective& effective, Finding& finding) {
  for (const Condition& condition : rule.when) {
    const auto found = effective.settings.find(std::string(condition.flag));
    if (found == effective.settings.end() || !found->second.is_given()) {
      continue;
    }
    std::vector<std::string> steps;
    std::vector<std::string> words;
    const std::vector<Layer>& layers = found->second.layers;
    for (size_t i = layers.size() - 1; i > 0; --i) {
      steps.push_back(removal(found->first, layers[i]));
      if (!layers[i].word.empty()) {
        words.push_back(layers[i].word);
      }
      if (!holds(condition, layers[i - 1].value)) {
        finding.remedy = fmt::format("{}", fmt::join(steps, " and "));
        finding.drop = words;
        return;
      }
    }
  }
  const bool on = rule.when.front().test == Test::OFF;
  const std::string value = on ? "true" : "false";
  finding.remedy = fmt::format("set {}={}", rule.when.front().flag, value);
  if (const Flag* flag = find_flag(rule.when.front().flag); flag != nullptr) {
    const Variable place = flag->variable == Variable::BOTH ? Variable::XLA_FLAGS : flag->variable;
    finding.add = {{place, fmt::format("--{}={}", flag->name, value)}};
  }
}

Finding finding_of(const Rule& rule, const Effective& effective) {
  Finding out{.id = std::string(rule.id),
              .severity = rule.severity,
              .evidence = std::string(rule.evidence)};
  std::vector<std::string> given;
  for (const Condition& condition : rule.when) {
    const auto found = effective.settings.find(std::string(condition.flag));
    if (found != effective.settings.end() && found->second.is_given()) {
      given.push_back(fmt::format("{}={} ({})", found->first, found->second.top().value,
                                  found->second.top().origin));
    }
  }
  out.what =
      fmt::format("{}{}{}", fmt::join(given, " with "), given.empty() ? "" : ": ", rule.what);
  if (!rule.refused_since.empty()) {
    const bool refused =
        compare_versions(effective.platform.table_version(), rule.refused_since) >= 0;
    out.what += refused ? fmt::format("; {} refuses it", effective.platform.text())
                        : fmt::format("; libtpu refuses it from {} on, {} would run it",
                                      rule.refused_since, effective.platform.text());
  }
  propose_change(rule, effective, out);
  return out;
}

}  // namespace

std::vector<Finding> guard(const Effective& effective) {
  std::vector<Finding> out;
  for (const Rule& rule : rules()) {
    if (applies(rule, effective)) {
      out.push_back(finding_of(rule, effective));
    }
  }
  return out;
}

}  // namespace kinema::flags
