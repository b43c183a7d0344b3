#include "kinema/environments/group.h"

#include <algorithm>

#include "kinema/core/error.h"
#include "kinema/environments/native.h"
#include "kinema/environments/nearest.h"
#include "kinema/environments/python_group.h"
#include "kinema/environments/wrapped_group.h"

namespace kinema::environments {
namespace {

/// The group as its environments are, by the suite before the task's first underscore.
std::unique_ptr<Group> open_suite(const GroupOptions& options) {
  const std::string suite = options.task.substr(0, options.task.find('_'));
  std::vector<std::string> names = native_tasks();
  const auto has_suite = [&](const std::string& name) { return name.starts_with(suite + "_"); };
  if (options.address.empty() && std::ranges::any_of(names, has_suite)) {
    return open_native_group(options);
  }
  const std::vector<std::string> suites = python_suites();
  const bool is_own = options.task.find(':') != std::string::npos;
  if (is_own || !options.address.empty() || std::ranges::count(suites, suite) != 0) {
    return open_python_group(options);
  }
  for (const std::string& other : suites) {
    // With this task's name, so that the nearest one is that of the nearest suite.
    const size_t name = options.task.find('_');
    names.push_back(other + (name == std::string::npos ? "_NAME" : options.task.substr(name)));
  }
  names.emplace_back("MODULE:FUNCTION");
  fail("[environments] there is no task `{}`\n  {}", options.task, suggestion(options.task, names));
}

}  // namespace

void Group::restore(std::string_view /*state*/) {
  fail("[environments] these environments cannot be restored: start new episodes");
}

std::unique_ptr<Group> open_group(const GroupOptions& options) {
  constexpr int64_t kMostEnvironments = 4096;
  check(options.count > 0 && options.count <= kMostEnvironments,
        "[environments] a group of {} environments of {}, expected 1 to {}", options.count,
        options.task, kMostEnvironments);
  return wrapped(open_suite(options), options.task);
}

}  // namespace kinema::environments
