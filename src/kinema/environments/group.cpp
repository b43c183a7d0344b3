#include "kinema/environments/group.h"

#include "kinema/core/error.h"
#include "kinema/environments/native.h"
#include "kinema/environments/wrapped_group.h"

namespace kinema::environments {

void Group::restore(std::string_view /*state*/) {
  fail("[environments] these environments cannot be restored: start new episodes");
}

std::unique_ptr<Group> open_group(const GroupOptions& options) {
  constexpr int64_t kMostEnvironments = 4096;
  check(options.count > 0 && options.count <= kMostEnvironments,
        "[environments] a group of {} environments of {}, expected 1 to {}", options.count,
        options.task, kMostEnvironments);
  return wrapped(open_native_group(options), options.task);
}

}  // namespace kinema::environments
