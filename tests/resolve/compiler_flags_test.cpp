#include "kinema/resolve/compiler_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kinema/core/error.h"

namespace kinema::resolve {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
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

std::string triton(const FlagRequest& what) {
  const flags::Effective effective = resolve_flags({}, what);
  const flags::Setting& found = effective.settings.at("xla_gpu_enable_triton_gemm");
  return found.top().value + ", " + found.top().origin;
}

TEST(ResolveFlags, KnowsWhatProgramsOfOneGpuSet) {
  EXPECT_EQ(triton({.target = "h100:8"}), "true, default");
  EXPECT_EQ(triton({.target = "h100"}), "true, default");
  EXPECT_EQ(triton({.target = "h100:1"}), "false, programs of one GPU");
  EXPECT_EQ(triton({.target = "h100", .one_device = true}), "false, programs of one GPU");
  EXPECT_EQ(resolve_flags({}, {.target = "cpu:1"}).options().size(), 0U);
  const FlagRequest asked{
      .target = "h100:1",
      .lists = FlagLists{.libtpu_init_args = {}, .xla_flags = "--xla_gpu_enable_triton_gemm=true"}};
  EXPECT_EQ(triton(asked), "true, XLA_FLAGS");
}

TEST(OptionsForPrograms, HaveWhatTheEnvironmentSaysOfFlagsThatKernelsSet) {
  FlagRequest what{.target = "h100:8", .lists = FlagLists{}};
  EXPECT_THAT(program_flags(resolve_flags({}, what)), IsEmpty());
  what.lists->xla_flags = "--xla_gpu_enable_triton_gemm=true";
  const pjrt::FlagValue yes = true;
  EXPECT_THAT(program_flags(resolve_flags({}, what)),
              ElementsAre(Pair("xla_gpu_enable_triton_gemm", yes)));
}

}  // namespace
}  // namespace kinema::resolve
