#include "kinema/cli/compiler_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kinema/core/error.h"

namespace kinema::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(PlatformOf, HasEveryChipThatCanBePlannedFor) {
  for (const planning::Chip& chip : planning::chips()) {
    const flags::Platform platform = platform_of(chip.name);
    EXPECT_EQ(platform.chip, chip.name);
    EXPECT_EQ(platform.backend == flags::Backend::TPU, chip.family == planning::Family::TPU);
    EXPECT_EQ(platform.backend == flags::Backend::GPU, chip.family == planning::Family::CUDA);
  }
}

TEST(PlatformOf, ReadsTheChipOfATarget) {
  EXPECT_EQ(platform_of("v6e:4x4").chip, "v6e");
  EXPECT_EQ(platform_of("rtx4090:1").backend, flags::Backend::GPU);
  EXPECT_EQ(platform_of("gpu").backend, flags::Backend::GPU);
  EXPECT_EQ(platform_of("cpu").backend, flags::Backend::CPU);
  EXPECT_THAT([] { platform_of("v7x:2x2"); }, ThrowsMessage<Error>(HasSubstr("tpu7x")));
}

}  // namespace
}  // namespace kinema::cli
