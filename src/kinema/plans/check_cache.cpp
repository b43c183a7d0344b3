#include "kinema/plans/check_cache.h"

#include <system_error>

#include "kinema/core/error.h"
#include "kinema/io/atomic_write.h"
#include "kinema/io/json.h"

namespace kinema::plans {

namespace fs = std::filesystem;

std::optional<std::string> read_check(const fs::path& file) {
  std::error_code ignored;
  if (!fs::is_regular_file(file, ignored)) {
    return std::nullopt;
  }
  try {
    return io::Json::read(file).at("problem").as_string();
  } catch (const Error&) {  // incomplete, or of another version: check again
    return std::nullopt;
  }
}

void write_check(const fs::path& file, const std::string& problem) {
  try {
    std::error_code ignored;
    fs::create_directories(file.parent_path(), ignored);
    io::write_file(file, io::Json::object().set("problem", problem).dump());
  } catch (const Error&) {
  }
}

}  // namespace kinema::plans
