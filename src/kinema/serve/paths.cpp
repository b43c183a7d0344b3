#include "kinema/serve/paths.h"

namespace kinema::serve {

bool lies_in(const std::filesystem::path& file, const std::filesystem::path& folder) {
  std::error_code error;
  const std::filesystem::path inner = std::filesystem::canonical(file, error);
  if (error) {
    return false;
  }
  const std::filesystem::path outer = std::filesystem::canonical(folder, error);
  return !error && inner.string().starts_with(outer.string() + "/");
}

}  // namespace kinema::serve
