// main of every test program. A room's tests are one program; ctest runs `--file=NAME`, which
// selects the tests of NAME.cpp. An explicit --gtest_filter has precedence.
#include <gmock/gmock.h>

#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>

namespace {

/// The value of `--file=`, removed from the arguments; empty without it.
std::string take_file(int* argc, char** argv) {
  constexpr std::string_view kOption = "--file=";
  std::string file;
  int kept = 1;
  for (int i = 1; i < *argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument.starts_with(kOption)) {
      file = argument.substr(kOption.size());
    } else {
      argv[kept++] = argv[i];
    }
  }
  *argc = kept;
  return file;
}

/// A GoogleTest filter for every test of FILE.cpp.
std::string tests_of(std::string_view file) {
  std::string filter;
  const auto& all = *testing::UnitTest::GetInstance();
  for (int s = 0; s < all.total_test_suite_count(); ++s) {
    const testing::TestSuite& suite = *all.GetTestSuite(s);
    for (int t = 0; t < suite.total_test_count(); ++t) {
      const testing::TestInfo& test = *suite.GetTestInfo(t);
      if (std::filesystem::path(test.file()).stem() == file) {
        filter += std::string(suite.name()) + "." + test.name() + ":";
      }
    }
  }
  return filter;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string file = take_file(&argc, argv);
  testing::InitGoogleMock(&argc, argv);
  if (!file.empty() && testing::GTEST_FLAG(filter) == "*") {
    const std::string filter = tests_of(file);
    if (filter.empty()) {
      std::fprintf(stderr, "no test of %s.cpp in this program\n", file.c_str());
      return 1;
    }
    testing::GTEST_FLAG(filter) = filter;
  }
  return RUN_ALL_TESTS();
}
