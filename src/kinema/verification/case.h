#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kinema/core/host_array.h"
#include "kinema/io/json.h"
#include "kinema/io/safetensors.h"

namespace kinema::verification {

/// One reference case: `io/NAME.json` and `io/NAME.safetensors`.
class Case {
 public:
  /// Throws an Error if a file is missing or corrupt.
  Case(std::filesystem::path folder, std::string name);

  const std::string& name() const { return name_; }
  /// The folder of this set of cases, which also contains the models.
  const std::filesystem::path& folder() const { return folder_; }
  const io::Json& about() const { return about_; }
  /// The folder of the model in `about`.
  std::filesystem::path model() const;

  bool has(std::string_view tensor) const { return file_.find(tensor) != nullptr; }
  HostArray tensor(std::string_view name) const { return file_.at(name).copy(); }
  /// Names that start with `prefix`, in the file's order.
  std::vector<std::string> names(std::string_view prefix) const;
  /// Names that end with `end`, without `end`.
  std::vector<std::string> names_before(std::string_view end, std::string_view prefix = "") const;

 private:
  std::filesystem::path folder_;
  std::string name_;
  io::Json about_;
  io::SafetensorsFile file_;
};

/// A member of a JSON object; null if it is missing or null.
const io::Json* given(const io::Json& object, std::string_view key);
/// The strings of a list.
std::vector<std::string> strings(const io::Json& list);

/// Names of all cases in `folder/io`, sorted. Throws an Error if there are none.
std::vector<std::string> case_names(const std::filesystem::path& folder);

}  // namespace kinema::verification
