#include "kinema/pjrt/plugin.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "kinema/core/error.h"
#include "kinema/pjrt/api.h"
#include "kinema/pjrt/client.h"
#include "kinema/pjrt/topology.h"

namespace kinema::pjrt {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

std::string fake(const std::string& kind) {
  return std::string(KINEMA_BINARY_DIR "/tests/pjrt_fake_") + kind + ".so";
}

int live_errors(const std::string& kind) {
  void* library = dlopen(fake(kind).c_str(), RTLD_NOW | RTLD_NOLOAD);
  const auto count = reinterpret_cast<int (*)()>(dlsym(library, "fake_live_errors"));
  return count();
}

TEST(Plugin, GivesOneInstanceForOneFile) {
  const Plugin& plugin = Plugin::load(fake("sound"));

  EXPECT_EQ(&plugin, &Plugin::load(fake("sound")));
  EXPECT_EQ(&plugin, &Plugin::load(KINEMA_BINARY_DIR "/tests/../tests/pjrt_fake_sound.so"));
  EXPECT_NE(&plugin, &Plugin::load(fake("newer")));
}

TEST(Plugin, TellsItsVersions) {
  const Plugin& plugin = Plugin::load(fake("sound"));

  EXPECT_EQ(plugin.major_version(), 0);
  EXPECT_EQ(plugin.minor_version(), 81);
  EXPECT_EQ(plugin.stablehlo_version(), "1.20.0");
}

TEST(Plugin, SaysThatTheFileIsMissing) {
  EXPECT_THAT([] { Plugin::load("/nowhere/plugin.so"); },
              ThrowsMessage<Error>(AllOf(HasSubstr("[pjrt] no plugin at `/nowhere/plugin.so`"),
                                         HasSubstr("No such file"))));
}

TEST(Plugin, SaysThatTheFileIsNoLibrary) {
  const std::string path = testing::TempDir() + "text.so";
  std::ofstream(path) << "not a library";

  EXPECT_THAT([&] { Plugin::load(path); }, ThrowsMessage<Error>(HasSubstr("cannot be loaded")));
}

TEST(Plugin, SaysThatTheLibraryIsNoPlugin) {
  EXPECT_THAT(
      [] { Plugin::load(fake("no_api")); },
      ThrowsMessage<Error>(HasSubstr("is not a PJRT plugin: it has no function GetPjrtApi")));
  EXPECT_THAT([] { Plugin::load(fake("null_api")); },
              ThrowsMessage<Error>(HasSubstr("GetPjrtApi returned nothing")));
}

TEST(Plugin, RefusesVersionsThatItCannotRead) {
  EXPECT_THAT(
      [] { Plugin::load(fake("ancient")); },
      ThrowsMessage<Error>(HasSubstr("speaks PJRT 0.40 but 0.57 or a later 0.x is needed")));
  EXPECT_THAT([] { Plugin::load(fake("next_major")); },
              ThrowsMessage<Error>(HasSubstr("speaks PJRT 1.81")));
}

TEST(Plugin, ReportsAFailedStartAgainOnTheSecondLoad) {
  for (int attempt = 0; attempt < 2; ++attempt) {
    SCOPED_TRACE(attempt);
    EXPECT_THAT([] { Plugin::load(fake("failing_start")); },
                ThrowsMessage<Error>(
                    "[pjrt] PJRT_Plugin_Initialize: resource exhausted: no device of this kind"));
  }
  EXPECT_EQ(live_errors("failing_start"), 0);
}

TEST(Call, FreesTheErrorAndReportsItsCodeAndText) {
  const Plugin& plugin = Plugin::load(fake("sound"));

  EXPECT_THAT(
      [&] { Client client(plugin); },
      ThrowsMessage<Error>("[pjrt] PJRT_Client_Create: resource exhausted: all devices are taken"));
  EXPECT_EQ(live_errors("sound"), 0);
}

TEST(Call, RefusesAFunctionThatThePluginLeavesOut) {
  const Plugin& plugin = Plugin::load(fake("sound"));

  EXPECT_THAT([&] { Topology topology(plugin, "v6e:4x4"); },
              ThrowsMessage<Error>("[pjrt] PJRT_TopologyDescription_Create: not offered by this "
                                   "plugin (PJRT 0.81)"));
}

TEST(Call, DoesNotReadBeyondAnOlderTable) {
  const Plugin& plugin = Plugin::load(fake("older_table"));

  EXPECT_THAT([&] { KINEMA_PJRT(plugin.api(), Executable_GetCompiledMemoryStats); },
              ThrowsMessage<Error>(HasSubstr("not offered by this plugin (PJRT 0.60)")));
  // The last function inside the table is still found (and null here).
  EXPECT_THAT([&] { KINEMA_PJRT(plugin.api(), Client_TopologyDescription); },
              ThrowsMessage<Error>(HasSubstr("not offered")));
}

TEST(Call, SurvivesANewerPluginThatWritesLaterFields) {
  const Plugin& plugin = Plugin::load(fake("newer"));

  const auto stats = KINEMA_PJRT(plugin.api(), Executable_GetCompiledMemoryStats);

  EXPECT_EQ(plugin.minor_version(), 116);
  EXPECT_EQ(stats.temp_size_in_bytes, 7);
  EXPECT_EQ(stats.peak_memory_in_bytes, 9);
}

TEST(Plugin, HasNoFfiWhereThereIsNoExtension) {
  const Plugin& plugin = Plugin::load(fake("sound"));
  int handler = 0;

  EXPECT_EQ(plugin.extension(PJRT_Extension_Type_FFI), nullptr);
  EXPECT_THAT([&] { plugin.register_ffi_handler("kinema.test", &handler); },
              ThrowsMessage<Error>(HasSubstr("takes no FFI handlers (PJRT 0.81)")));
}

TEST(Options, RefusesAKnownOptionOfAnotherType) {
  EXPECT_THAT(
      [] {
        checked_options({{"cpu_device_count", std::string("4")}});
      },
      ThrowsMessage<Error>("[pjrt] option `cpu_device_count` takes an integer but was given `4`"));
  EXPECT_THAT(
      [] {
        checked_options({{"preallocate", int64_t{1}}});
      },
      ThrowsMessage<Error>("[pjrt] option `preallocate` takes true or false but was given "
                           "`1`"));
  EXPECT_THAT(
      [] {
        checked_options({{"cpu_device_count", int64_t{0}}});
      },
      ThrowsMessage<Error>("[pjrt] option `cpu_device_count` is at least 1 but was given 0"));
}

TEST(Options, TakesAnIntegerForANumberAndLeavesUnknownOptionsAlone) {
  const NamedValues checked =
      checked_options({{"memory_fraction", int64_t{1}}, {"of_the_future", std::string("x")}});

  EXPECT_EQ(std::get<float>(checked.at("memory_fraction")), 1.0f);
  EXPECT_EQ(std::get<std::string>(checked.at("of_the_future")), "x");
}

}  // namespace
}  // namespace kinema::pjrt
