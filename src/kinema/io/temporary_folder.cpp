#include "kinema/io/temporary_folder.h"

#include <cstdlib>
#include <string>
#include <system_error>

#include "kinema/core/error.h"

namespace kinema::io {

namespace fs = std::filesystem;

TemporaryFolder::TemporaryFolder(const std::string& name) {
  std::string pattern = (fs::temp_directory_path() / ("kinema-" + name + "-XXXXXX")).string();
  check(mkdtemp(pattern.data()) != nullptr, "[io] no temporary folder can be made in {}",
        fs::temp_directory_path().string());
  path_ = pattern;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

}  // namespace kinema::io
