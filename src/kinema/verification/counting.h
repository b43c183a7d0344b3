#pragma once

#include <string>
#include <vector>

#include "kinema/io/json.h"
#include "kinema/verification/case.h"
#include "kinema/verification/verify.h"

namespace kinema::verification {

/// A row that counts: how many of the prompts differ, and how the first does.
struct Count {
  Row row;

  Count(const Case& c, const std::string& tensor);
  void add(bool same, const std::string& prompt, const std::string& got, const std::string& want);
  /// Ids, or words.
  void add(const std::string& prompt, const std::vector<int64_t>& got,
           const std::vector<int64_t>& want);
  void add(const std::string& prompt, const std::vector<std::string>& got,
           const std::vector<std::string>& want);
};

std::vector<std::string> strings(const io::Json& list);

}  // namespace kinema::verification
