#pragma once

#include <filesystem>
#include <string>

#include "kinema/io/temporary_folder.h"

namespace kinema::io {

/// A new folder that is removed at the end of the test.
class Scratch : public TemporaryFolder {
 public:
  Scratch() : TemporaryFolder("test") {}
  std::filesystem::path operator/(const std::string& name) const { return path() / name; }
};

/// A folder of reference cases in the repository.
inline std::filesystem::path golden(const std::string& name) {
  return std::filesystem::path(KINEMA_SOURCE_DIR) / "tests" / "golden" / name;
}

}  // namespace kinema::io
