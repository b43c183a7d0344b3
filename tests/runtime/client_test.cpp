#include "kinema/runtime/client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <optional>

#include "kinema/core/error.h"
#include "kinema/runtime/environment.h"
#include "runtime/cpu_client.h"

namespace kinema::runtime {
namespace {

using testing::HasSubstr;
using testing::MatchesRegex;
using testing::ThrowsMessage;

// Sets or clears an environment variable for its lifetime.
class ScopedVariable {
 public:
  ScopedVariable(const char* name, const std::string& value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    setenv(name, value.c_str(), 1);
  }
  ~ScopedVariable() {
    if (old_) {
      setenv(name_, old_->c_str(), 1);
    } else {
      unsetenv(name_);
    }
  }

 private:
  const char* name_;
  std::optional<std::string> old_;
};

using FindPlugin = CpuClientTest;
using DescribeEnvironment = CpuClientTest;
using ProcessMemory = CpuClientTest;

TEST_F(FindPlugin, PrefersTheOptionThenTheVariables) {
  const ScopedVariable any("KINEMA_PJRT_PLUGIN", "/any.so");
  const ScopedVariable cpu("KINEMA_PJRT_CPU", "/cpu.so");

  EXPECT_EQ(find_plugin({.plugin = "/given.so"}), "/given.so");
  EXPECT_EQ(find_plugin({}), "/any.so");
  const ScopedVariable none("KINEMA_PJRT_PLUGIN", "");
  EXPECT_EQ(find_plugin({}), "/cpu.so");
}

TEST_F(FindPlugin, TakesTheNewestWheelOfTheCache) {
  const ScopedVariable any("KINEMA_PJRT_PLUGIN", "");
  const ScopedVariable cpu("KINEMA_PJRT_CPU", "");
  const ScopedVariable cache("KINEMA_CACHE", folder());
  for (const std::string version : {"0.0.9", "0.0.10", "0.0.2"}) {
    const std::string wheel = folder() + "/xla-cpu-pjrt-" + version + "/xla_plugins/xla_cpu_pjrt";
    std::filesystem::create_directories(wheel);
    std::ofstream(wheel + "/xla_cpu_pjrt.so") << "";
  }

  EXPECT_THAT(find_plugin({}), HasSubstr("/xla-cpu-pjrt-0.0.10/xla_plugins/"));
}

TEST_F(FindPlugin, ExplainsHowToInstallOtherHardware) {
  const ScopedVariable any("KINEMA_PJRT_PLUGIN", "");
  const ScopedVariable cache("KINEMA_CACHE", "/nowhere");

  EXPECT_THAT(
      [] { find_plugin({.hardware = "tpu"}); },
      ThrowsMessage<Error>(MatchesRegex("\\[runtime\\] no plugin for hardware `tpu` in `/nowhere`\n"
                                        "  fetch it with: kinema doctor --install tpu; .*")));
}

TEST_F(FindPlugin, CallsHardwareAsItsKeyDoes) {
  const ScopedVariable any("KINEMA_PJRT_PLUGIN", "");
  const ScopedVariable cache("KINEMA_CACHE", "/nowhere");

  EXPECT_THAT(
      [] { find_plugin({.hardware = "cuda"}); },
      ThrowsMessage<Error>(MatchesRegex("\\[runtime\\] no plugin for hardware `gpu` in `/nowhere`\n"
                                        "  fetch it with: kinema doctor --install cuda; .*")));
}

TEST_F(FindPlugin, PutsTheCacheWhereTheVariablesSay) {
  const ScopedVariable own("KINEMA_CACHE", "");
  const ScopedVariable home("HOME", "/home/me");
  {
    const ScopedVariable xdg("XDG_CACHE_HOME", "");
    EXPECT_EQ(cache_folder(), "/home/me/.cache/kinema");
  }
  const ScopedVariable xdg("XDG_CACHE_HOME", "/xdg");
  EXPECT_EQ(cache_folder(), "/xdg/kinema");
  const ScopedVariable mine("KINEMA_CACHE", "/mine");
  EXPECT_EQ(cache_folder(), "/mine");
}

TEST_F(DescribeEnvironment, ReportsPluginAndDevices) {
  const Environment environment = describe_environment({.cpu_devices = 2});

  EXPECT_EQ(environment.problem, "");
  EXPECT_EQ(environment.platform_name, "cpu");
  EXPECT_THAT(environment.pjrt_version, MatchesRegex("0\\.[0-9]+"));
  EXPECT_EQ(environment.devices.size(), 2u);
  EXPECT_TRUE(environment.has_ffi);
  EXPECT_GE(environment.cpu_cores, 1);
  EXPECT_GT(environment.memory_bytes, int64_t{1} << 28);
}

TEST_F(DescribeEnvironment, ReportsProblemsInsteadOfThrowing) {
  const Environment environment = describe_environment({.plugin = "/nowhere.so"});

  EXPECT_THAT(environment.problem, HasSubstr("[pjrt] no plugin at `/nowhere.so`"));
  EXPECT_TRUE(environment.devices.empty());
  EXPECT_GE(environment.cpu_cores, 1);
}

TEST_F(ProcessMemory, RemembersThePeakUntilItIsReset) {
  constexpr int64_t kBytes = int64_t{64} << 20;
  const int64_t before = peak_rss_bytes();
  {
    std::vector<char> block(kBytes, 1);  // touched, so it is resident
    EXPECT_EQ(block[kBytes / 2], 1);
  }

  EXPECT_GE(peak_rss_bytes(), before);
  EXPECT_GE(peak_rss_bytes(), kBytes);
}

}  // namespace
}  // namespace kinema::runtime
