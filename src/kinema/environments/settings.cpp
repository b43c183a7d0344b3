#include "kinema/environments/settings.h"

#include <fmt/ranges.h>

#include <utility>

#include "kinema/core/error.h"
#include "kinema/environments/nearest.h"

namespace kinema::environments {

Settings::Settings(const std::string& json, std::string task)
    : task_(std::move(task)),
      json_(json.empty() ? io::Json::object()
                         : io::Json::parse(json, fmt::format("the settings of {}", task_))) {
  check(json_.is_object(), "[environments] the settings of {} are {}, expected a JSON object",
        task_, json_.describe());
}

const io::Json* Settings::find(std::string_view name) {
  read_.emplace(name);
  return json_.find(name);
}

int64_t Settings::whole(std::string_view name, int64_t otherwise, int64_t least, int64_t most) {
  const io::Json* given = find(name);
  const int64_t value = given == nullptr ? otherwise : given->as_int();
  check(value >= least && value <= most,
        "[environments] `{}` of {} is {}, expected a number from {} to {}", name, task_, value,
        least, most);
  return value;
}

double Settings::number(std::string_view name, double otherwise, double least, double most) {
  const io::Json* given = find(name);
  const double value = given == nullptr ? otherwise : given->as_number();
  check(value >= least && value <= most,
        "[environments] `{}` of {} is {}, expected a number from {} to {}", name, task_, value,
        least, most);
  return value;
}

void Settings::check_all_read() const {
  for (const auto& [name, value] : json_.members()) {
    check(read_.contains(name), "[environments] {} has no setting `{}`\n  {}", task_, name,
          suggestion(name, {read_.begin(), read_.end()}));
  }
}

}  // namespace kinema::environments
