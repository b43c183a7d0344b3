#include "kinema/planning/temporary_folder.h"

#include <cstdlib>
#include <string>
#include <system_error>

#include "kinema/core/error.h"

namespace kinema::planning {

namespace fs = std::filesystem;

TemporaryFolder::TemporaryFolder() {
  std::string pattern = (fs::temp_directory_path() / "kinema-plan-XXXXXX").string();
  check(mkdtemp(pattern.data()) != nullptr, "[plan] no temporary folder can be made in {}",
        fs::temp_directory_path().string());
  path_ = pattern;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

}  // namespace kinema::planning
