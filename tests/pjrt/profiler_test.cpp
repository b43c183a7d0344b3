#include "kinema/pjrt/profiler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kinema/core/error.h"

namespace kinema::pjrt {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

const Plugin& fake(const std::string& kind) {
  return Plugin::load(std::string(KINEMA_BINARY_DIR "/tests/pjrt_fake_") + kind + ".so");
}

TEST(Profiler, GivesWhatThePluginRecorded) {
  ASSERT_TRUE(Profiler::is_available(fake("profiling")));
  Profiler profiler(fake("profiling"));
  EXPECT_THAT(profiler.stop(), HasSubstr("blocks.0/attn1/to_q/dot"));
  EXPECT_THAT([&] { profiler.stop(); }, ThrowsMessage<Error>(HasSubstr("stopped before")));
}

TEST(Profiler, BringsTheMemoryWhereThePluginSaysOnlyHowMuch) {
  Profiler profiler(fake("counting_profiler"));
  EXPECT_THAT(profiler.stop(), HasSubstr("blocks.0/attn1/to_q/dot"));
}

TEST(Profiler, SaysWhatThePluginSays) {
  EXPECT_THAT([] { Profiler profiler(fake("busy_profiler")); },
              ThrowsMessage<Error>(HasSubstr("create: another profiler is at work")));
}

TEST(Profiler, RefusesATableThatEndsTooEarly) {
  EXPECT_THAT([] { Profiler profiler(fake("short_profiler")); },
              ThrowsMessage<Error>(AllOf(HasSubstr("72 bytes"), HasSubstr("80 are needed"))));
}

TEST(Profiler, IsNotOfferedByEveryPlugin) {
  EXPECT_FALSE(Profiler::is_available(fake("sound")));
  EXPECT_THAT([] { Profiler profiler(fake("sound")); },
              ThrowsMessage<Error>(HasSubstr("has no profiler")));
}

TEST(Profiler, EndsWithItsObject) {
  { const Profiler profiler(fake("profiling")); }
  Profiler again(fake("profiling"));
  EXPECT_FALSE(again.stop().empty());
}

}  // namespace
}  // namespace kinema::pjrt
