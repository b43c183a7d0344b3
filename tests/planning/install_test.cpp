#include "kinema/planning/install.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "io/scratch.h"
#include "kinema/core/error.h"

namespace kinema::planning {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;
using ::testing::ThrowsMessage;

/// pip with a folder of wheels as its index.
class Install : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::system("python3 -m pip --version >/dev/null 2>&1") != 0) {
      GTEST_SKIP() << "there is no python3 with pip";
    }
    setenv("PIP_NO_INDEX", "1", 1);
    setenv("PIP_FIND_LINKS", (scratch_.path() / "index").c_str(), 1);
    fs::create_directories(scratch_.path() / "index");
    plugin_ = add("a-plugin", {"plugins/a/a.so", "plugins/a/include/a.h"});
    library_ = add("a-library", {"vendor/lib/libx.so.1"});
  }
  void TearDown() override {
    unsetenv("PIP_NO_INDEX");
    unsetenv("PIP_FIND_LINKS");
  }

  /// Adds a wheel with these files to the index.
  Wheel add(const std::string& package, const std::vector<std::string>& files) {
    std::string name = package;
    std::ranges::replace(name, '-', '_');
    const fs::path wheel =
        scratch_.path() / "index" / (name + "-1.0-py3-none-manylinux2014_x86_64.whl");
    std::string command =
        "python3 -c \""
        "import sys, zipfile\n"
        "wheel, name, package, *files = sys.argv[1:]\n"
        "info = name + '-1.0.dist-info/'\n"
        "with zipfile.ZipFile(wheel, 'w') as archive:\n"
        "    for file in files: archive.writestr(file, file)\n"
        "    archive.writestr(info + 'METADATA', "
        "'Metadata-Version: 2.1\\\\nName: ' + package + '\\\\nVersion: 1.0\\\\n')\n"
        "    archive.writestr(info + 'WHEEL', 'Wheel-Version: 1.0\\\\n')\n"
        "    archive.writestr(info + 'RECORD', '')\n\" " +
        wheel.string() + " " + name + " " + package;
    for (const std::string& file : files) {
      command += " " + file;
    }
    EXPECT_EQ(std::system(command.c_str()), 0);
    EXPECT_EQ(std::system(("sha256sum " + wheel.string() + " | cut -c1-64 > " +
                           (scratch_.path() / "sum").string())
                              .c_str()),
              0);
    std::string sum;
    std::ifstream(scratch_.path() / "sum") >> sum;
    return {.package = package,
            .version = "1.0",
            .sha256 = sum,
            .platform = "manylinux2014_x86_64",
            .megabytes = 1,
            .unpacked_megabytes = 1};
  }

  fs::path cache() const { return scratch_.path() / "cache"; }

  io::Scratch scratch_;
  Wheel plugin_;
  Wheel library_;
};

TEST_F(Install, UnpacksThePluginAndItsLibrariesSideBySide) {
  const Installation both{.hardware = "x", .what = "x", .wheels = {plugin_, library_}};
  std::vector<std::string> said;

  const fs::path folder =
      install(both, cache(), [&](const std::string& line) { said.push_back(line); });

  EXPECT_EQ(folder, cache() / "a-plugin-1.0");
  EXPECT_TRUE(fs::exists(folder / "plugins/a/a.so"));
  EXPECT_TRUE(fs::exists(folder / "vendor/lib/libx.so.1"));
  EXPECT_FALSE(fs::exists(folder / "plugins/a/include")) << "headers are of no use to a plugin";
  EXPECT_THAT(said, ElementsAre("fetching a-plugin 1.0 (1 MB)", "fetching a-library 1.0 (1 MB)"));
  EXPECT_THAT(missing_wheels(both, cache()), IsEmpty());
}

TEST_F(Install, DownloadsOnlyMissingWheels) {
  const Installation one{.hardware = "x", .what = "x", .wheels = {plugin_}};
  install(one, cache());
  const Installation both{.hardware = "x", .what = "x", .wheels = {plugin_, library_}};
  ASSERT_EQ(missing_wheels(both, cache()).size(), 1u);
  std::vector<std::string> said;

  install(both, cache(), [&](const std::string& line) { said.push_back(line); });

  EXPECT_THAT(said, ElementsAre(StartsWith("fetching a-library")));
}

TEST_F(Install, KeepsNothingOfAWheelWithAnotherChecksum) {
  Wheel other = library_;
  other.sha256 = std::string(64, '0');
  const Installation both{.hardware = "x", .what = "x", .wheels = {plugin_, other}};

  EXPECT_THAT([&] { install(both, cache()); },
              ThrowsMessage<Error>(HasSubstr("fetching a-library 1.0 failed")));
  EXPECT_FALSE(fs::exists(cache() / "a-plugin-1.0/vendor"));
  EXPECT_EQ(missing_wheels(both, cache()).size(), 1u) << "the plugin stays";
}

TEST_F(Install, AsksForTheSpaceFirst) {
  Wheel huge = library_;
  huge.unpacked_megabytes = int64_t{1} << 40;
  const Installation both{.hardware = "x", .what = "x", .wheels = {huge}};

  EXPECT_THAT([&] { install(both, cache()); }, ThrowsMessage<Error>(HasSubstr("GB are free")));
}

TEST(Installations, NameTheirHardware) {
  EXPECT_EQ(installation_for("cuda").wheels.front().package, "jax-cuda13-pjrt");
  EXPECT_THAT([] { installation_for("cpu"); }, ThrowsMessage<Error>(HasSubstr("tpu or cuda")));
}

}  // namespace
}  // namespace kinema::planning
