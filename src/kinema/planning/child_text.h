#pragma once

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace kinema::planning {

/// The text of a file that a child process was to write, of any size; empty where there is none.
inline std::string child_text(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

}  // namespace kinema::planning
