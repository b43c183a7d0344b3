#pragma once

#include <cstdint>
#include <string>
#include <string_view>

/// Quantities formatted for people.
namespace kinema {

/// `1:02:03` or `2:03`.
std::string clock_text(double seconds);

/// Three digits and a unit: `812`, `14.1 k`, `5.32 M`, `14.3 B`.
std::string count_text(int64_t count);

/// `1 step`, `3 steps`.
std::string counted(int64_t count, std::string_view thing);

}  // namespace kinema
