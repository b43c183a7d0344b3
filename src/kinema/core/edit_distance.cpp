#include "kinema/core/edit_distance.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace kinema {

int edit_distance(std::string_view a, std::string_view b) {
  constexpr size_t kMost = 256;
  a = a.substr(0, kMost);
  b = b.substr(0, kMost);
  // Three rows of the distance table: prefixes of a against prefixes of b.
  std::vector<int> row(b.size() + 1);
  std::vector<int> above(b.size() + 1);
  std::vector<int> two_above(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (size_t i = 1; i <= a.size(); ++i) {
    two_above.swap(above);
    above.swap(row);
    row[0] = static_cast<int>(i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const int changed = above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min(std::min(above[j], row[j - 1]) + 1, changed);
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], two_above[j - 2] + 1);
      }
    }
  }
  return row.back();
}

bool is_near(std::string_view a, std::string_view b) {
  return 3 * static_cast<size_t>(edit_distance(a, b)) <= std::max(a.size(), b.size());
}

}  // namespace kinema
