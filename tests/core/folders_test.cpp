#include "kinema/core/folders.h"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "kinema/core/error.h"

namespace kinema {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

/// Each test has its own variables and temporary folder.
class UserFolders : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "/kinema_user_XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    for (const char* name : {"HOME", "XDG_CACHE_HOME", "TMPDIR"}) {
      const char* value = std::getenv(name);
      old_.emplace_back(name, value == nullptr ? "" : value);
      unsetenv(name);
    }
    setenv("TMPDIR", folder_.c_str(), 1);
  }
  void TearDown() override {
    for (const auto& [name, value] : old_) {
      value.empty() ? unsetenv(name.c_str()) : setenv(name.c_str(), value.c_str(), 1);
    }
    fs::remove_all(folder_);
  }
  fs::path own() const { return folder_ / ("kinema-" + std::to_string(geteuid())); }

  fs::path folder_;
  std::vector<std::pair<std::string, std::string>> old_;
};

TEST_F(UserFolders, AreThoseOfTheVariables) {
  setenv("HOME", "/home/me", 1);
  EXPECT_EQ(user_home(), "/home/me");
  EXPECT_EQ(user_cache(), "/home/me/.cache");
  setenv("XDG_CACHE_HOME", "/xdg", 1);
  EXPECT_EQ(user_cache(), "/xdg");
  setenv("XDG_CACHE_HOME", "relative", 1);
  EXPECT_EQ(user_cache(), "/home/me/.cache") << "another folder in each place";
}

TEST_F(UserFolders, AreTheUsersAloneWithoutAHome) {
  EXPECT_EQ(user_home(), "");
  EXPECT_EQ(user_cache(), own());

  struct stat made {};
  ASSERT_EQ(lstat(own().c_str(), &made), 0);
  EXPECT_EQ(made.st_mode & 0777, 0700u);
  EXPECT_EQ(user_cache(), own()) << "the second time it is there";
}

TEST_F(UserFolders, AreRefusedWhereOthersCouldHaveWrittenThem) {
  fs::create_directory(own());
  fs::permissions(own(), fs::perms(0777));
  EXPECT_THAT(user_cache, ThrowsMessage<Error>(HasSubstr("is not a private folder of this user")));

  fs::remove(own());
  fs::create_directory(folder_ / "elsewhere");
  fs::permissions(folder_ / "elsewhere", fs::perms(0700));
  fs::create_directory_symlink(folder_ / "elsewhere", own());
  EXPECT_THAT(user_cache, ThrowsMessage<Error>(HasSubstr("set HOME")));
}

TEST_F(UserFolders, AreRefusedWhereTheyBelongToAnotherUser) {
  if (geteuid() != 0) {
    GTEST_SKIP() << "only root can make another user's folder";
  }
  fs::create_directory(own());
  fs::permissions(own(), fs::perms(0700));
  ASSERT_EQ(chown(own().c_str(), 12345, 12345), 0);

  EXPECT_THAT(user_cache, ThrowsMessage<Error>(HasSubstr("is not a private folder of this user")));
}

}  // namespace
}  // namespace kinema
