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
  /// Which of several patterns that match counts, as the cases' authors mean it.
  enum class Which { FIRST, LONGEST };
  explicit Limits(const io::Json& about, Which which = Which::FIRST);

  /// By the pattern that matches. Throws an Error where none does: then it is an input.
  Limit of(const std::string& tensor) const;

 private:
  Which which_;
  std::vector<std::pair<std::string, Limit>> limits_;
};

}  // namespace kinema::verification
