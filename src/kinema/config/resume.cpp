#include "kinema/config/resume.h"

#include <fmt/format.h>

#include "kinema/config/keys.h"
#include "kinema/core/error.h"
#include "kinema/io/json.h"

namespace kinema::config {
namespace {

/// A recorded value in the user's notation.
std::string shown(const std::string& value) {
  const io::Json json = io::Json::parse(value, "a recorded value");
  if (!json.is_string()) {
    return value;
  }
  return json.as_string().empty() ? "''" : json.as_string();
}

struct Change {
  std::string_view key;
  OnResume on_resume;
  const std::string& before;
  const std::string& now;
};

/// True if the record disables the key by another one (Field::with): then its value has no meaning.
bool is_idle(const Field& field, const Record& record) {
  const auto found = record.find(std::string(field.with.substr(0, field.with.find('='))));
  return !field.with.empty() && found != record.end() && !is_switched_on(found->second, field.with);
}

/// The differences of the keys that are in both records, in order of declaration.
std::vector<Change> compare(const Record& before, const Record& now) {
  std::vector<Change> out;
  for (const KeyValue& each : describe(Config{})) {
    const auto old_value = before.find(std::string(each.key));
    const auto new_value = now.find(std::string(each.key));
    if (old_value != before.end() && new_value != now.end() &&
        old_value->second != new_value->second &&
        !(is_idle(each.field, before) && is_idle(each.field, now))) {
      out.push_back({each.key, each.on_resume, old_value->second, new_value->second});
    }
  }
  return out;
}

}  // namespace

Record record_of(const Config& resolved) {
  Record out;
  for (const KeyValue& each : describe(resolved)) {
    if (each.on_resume != UNRELATED) {
      out.emplace(each.key, io::Json::parse(each.value, each.key).dump(-1));
    }
  }
  return out;
}

void check_matches(const Record& before, const Record& now,
                   const std::filesystem::path& checkpoint) {
  for (const Change& each : compare(before, now)) {
    check(each.on_resume != MUST_MATCH,
          "[train] {0} is {1}, but the run of {2} was started with {3}\n  {0}={3} resumes it, "
          "another run_name starts a new run",
          each.key, shown(each.now), checkpoint.string(), shown(each.before));
  }
}

std::vector<std::string> changes(const Record& before, const Record& now) {
  std::vector<std::string> out;
  for (const Change& each : compare(before, now)) {
    out.push_back(fmt::format("{}: {} -> {}", each.key, shown(each.before), shown(each.now)));
  }
  return out;
}

}  // namespace kinema::config
