#pragma once

#include <string>
#include <utility>
#include <vector>

#include "kinema/io/json.h"
#include "kinema/verification/compare.h"

namespace kinema::verification {

/// How far tensors may be from the reference, as a case says itself: `limits` of its JSON maps
/// patterns of names, `*` for anything, to `absolute`, `relative`, `of_largest`, `rms`,
/// `rms_of_rms`.
class Limits {
 public:
  explicit Limits(const io::Json& about);

  /// By the first pattern that matches. Throws an Error where none does: then it is an input.
  Limit of(const std::string& tensor) const;

 private:
  std::vector<std::pair<std::string, Limit>> limits_;
};

}  // namespace kinema::verification
