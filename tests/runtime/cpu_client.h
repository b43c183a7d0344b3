#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

#include "kinema/runtime/client.h"

namespace kinema::runtime {

/// Tests that need the CPU plugin (skipped with a reason without it) and an empty folder.
class CpuClientTest : public testing::Test {
 protected:
  void SetUp() override {
    const char* path = std::getenv("KINEMA_PJRT_CPU");
    if (path == nullptr || *path == '\0') GTEST_SKIP() << "KINEMA_PJRT_CPU names no CPU plugin";
    opened_.emplace(open_client({.cpu_devices = 2}));
    const testing::TestInfo& test = *testing::UnitTest::GetInstance()->current_test_info();
    folder_ = std::filesystem::path(testing::TempDir()) /
              (std::string("kinema_") + test.test_suite_name() + "_" + test.name() + "_" +
               std::to_string(getpid()));
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override {
    if (!folder_.empty()) std::filesystem::remove_all(folder_);
  }

  const pjrt::Client& client() const { return *opened_; }
  std::string folder() const { return folder_.string(); }

 private:
  std::optional<pjrt::Client> opened_;
  std::filesystem::path folder_;
};

}  // namespace kinema::runtime
