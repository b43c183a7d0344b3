#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "io/scratch.h"
#include "kinema/core/error.h"

namespace kinema::environments {

/// A working folder with a module `own.py`, in which Python finds numpy.
class OwnModule {
 public:
  explicit OwnModule(const std::string& text) : before_(std::filesystem::current_path()) {
    const char* numpy = std::getenv("KINEMA_TEST_NUMPY");
    check(numpy != nullptr && std::filesystem::is_directory(numpy),
          "[test] KINEMA_TEST_NUMPY names no folder\n  run `./dev setup`, and this test by ctest");
    setenv("PYTHONPATH", numpy, 1);
    std::filesystem::current_path(folder_.path());
    write("own.py", text);
  }
  OwnModule(const OwnModule&) = delete;
  OwnModule& operator=(const OwnModule&) = delete;
  ~OwnModule() { std::filesystem::current_path(before_); }

  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
  }
  std::filesystem::path operator/(const std::string& name) const { return folder_ / name; }

 private:
  io::Scratch folder_;
  std::filesystem::path before_;
};

}  // namespace kinema::environments
