#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "kinema/io/temporary_folder.h"

namespace kinema::sample {

/// A new folder that is removed at the end of the test.
class TemporaryFolder : public io::TemporaryFolder {
 public:
  TemporaryFolder() : io::TemporaryFolder("sample-test") {}
  /// Writes a file and creates its folder.
  void write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories((path() / name).parent_path());
    std::ofstream(path() / name) << text;
  }
};

/// The compiled programs shared by this module's tests, by content.
inline std::string program_cache() {
  return (std::filesystem::path(testing::TempDir()) / "kinema_sample_programs").string();
}

}  // namespace kinema::sample
