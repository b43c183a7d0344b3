#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "kinema/environments/environment.h"

namespace kinema::environments {

/// Throws an Error unless `values` are a space's: `count` of them, [count, ...]. Rows where `skip`
/// is not 0 may have any value. `what` is their name in errors: `native_catch: action`.
void check_values(const HostArray& values, const Space& space, int64_t count, std::string_view what,
                  std::string_view name, std::span<const uint8_t> skip = {});

/// Conversion between floating-point types, and between integers and PRED.
HostArray converted(const HostArray& x, DType dtype);

}  // namespace kinema::environments
