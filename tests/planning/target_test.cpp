#include "kinema/planning/target.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <string>

#include "kinema/core/error.h"

namespace kinema::planning {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::ThrowsMessage;

TEST(Target, CountsTheDevicesOfAGridOfChips) {
  EXPECT_EQ(parse_target("v6e:4x4").devices, 16);
  EXPECT_EQ(parse_target("v5p:2x2x1").devices, 4);
  EXPECT_EQ(parse_target("tpu7x:2x2x1").devices, 8) << "a chip shows as two devices";
  EXPECT_EQ(parse_target("h100:8").devices, 8);
  EXPECT_EQ(parse_target("b200").devices, 1);
  EXPECT_EQ(parse_target("cpu:4").devices, 4);
}

TEST(Target, GivesTheCompilerTheNameItKnows) {
  EXPECT_EQ(parse_target("v5e:2x2").topology_name(), "v5e:2x2");
  EXPECT_EQ(parse_target("h200:4").topology_name(), "");

  const pjrt::NamedValues options = parse_target("h200:4").topology_options();
  EXPECT_EQ(std::get<std::string>(options.at("topology")), "1x1x4");
  EXPECT_THAT(std::get<std::string>(options.at("target_config")),
              AllOf(HasSubstr("major: 9 minor: 0"), HasSubstr("device_memory_size: 141000000000")));
}

TEST(Target, RefusesWhatItDoesNotKnowWithWhatItDoes) {
  const auto refuses = [](const std::string& text, const std::string& about) {
    EXPECT_THAT([&] { parse_target(text); }, ThrowsMessage<Error>(HasSubstr(about))) << text;
  };
  refuses("v9x:2x2",
          "v4, v5e, v5p, v6e, tpu7x, a100, a100-80gb, l4, l40s, rtx6000-ada, rtx4090, "
          "rtx5090, h100, h100-pcie, h200, gh200, b200, b300, cpu");
  refuses("", "is not known");
  refuses("v6e", "target=v6e:4x4");
  refuses("v6e:16", "a grid of 2 axes");
  refuses("v5p:2x2", "target=v5p:2x2x1");
  refuses("h100:2x4", "a count");
  refuses("cpu:0", "a count");
  refuses("cpu:4x", "a count");
  refuses("cpu:-1", "a count");
  refuses("v6e:4xx4", "a grid");
  refuses("v5p:65536x65536x65536", "more than 65536 chips");
  refuses("cpu:99999999999999999999", "a count");
}

// A new chip needs every figure that a report divides by.
TEST(Target, HasPublishedFiguresForEveryAccelerator) {
  for (const Chip& chip : chips()) {
    if (chip.family == Family::CPU) {
      continue;
    }
    EXPECT_GT(chip.flops, 1e14) << chip.name;
    EXPECT_GE(chip.memory_bandwidth, 3e11) << chip.name;
    EXPECT_GT(chip.interconnect_bandwidth, 3e10) << chip.name;
    EXPECT_GT(chip.memory_bytes, 1e10) << chip.name;
    EXPECT_FALSE(chip.source.empty()) << chip.name;
  }
}

// libtpu 0.0.51's numbers for devices (`core_on_chip` and `coords`).
TEST(Target, KnowsThePeakOfADeviceByItsPluginsNameForIt) {
  EXPECT_EQ(peak_flops("TPU v6 lite"), 918e12);
  EXPECT_EQ(peak_flops("TPU v5 lite"), 197e12);
  EXPECT_EQ(peak_flops("TPU v5"), 459e12);
  EXPECT_EQ(peak_flops("NVIDIA H100 80GB HBM3"), 989e12);
  EXPECT_EQ(peak_flops("NVIDIA H100 PCIe"), 756e12) << "a slower card of the same name";
  EXPECT_EQ(peak_flops("NVIDIA H100 NVL"), 0) << "not one that is known";
  EXPECT_EQ(peak_flops("NVIDIA GeForce RTX 4090"), 165.2e12);
  EXPECT_EQ(peak_flops("cpu"), 0);
}

// The GPU described to the compiler must be the device whose published peak the report divides by.
// Peaks are published with two to four digits, at a clock that is also rounded: 2 %.
TEST(Target, TellsTheCompilerOfTensorCoresThatReachThePublishedPeak) {
  for (const Chip& chip : chips()) {
    if (chip.family != Family::CUDA) {
      continue;
    }
    constexpr double kTensorCores = 4;
    constexpr double kOperations = 2;  // per multiply-add
    const double flops = static_cast<double>(chip.gpu.cores * chip.gpu.tensor_fma) * kTensorCores *
                         kOperations * chip.gpu.tensor_clock_ghz * 1e9;
    EXPECT_NEAR(flops / chip.flops, 1, 0.02) << chip.name;
  }
}

TEST(Target, DescribesGpusInFull) {
  const auto description = [](const char* name) {
    return gpu_description(parse_target(name).chip);
  };

  // Without the runtime's version the compiler generates no FP8 products.
  EXPECT_THAT(description("h100"),
              AllOf(HasSubstr("runtime_version: \"13.2.0\""), HasSubstr("ACCELERATED_FEATURES"),
                    HasSubstr("reserved_shared_memory_per_block: 1024"),
                    HasSubstr("max_blocks_per_multiprocessor: 32"),
                    HasSubstr("device_interconnect_info { active_links: 18 }")));
  constexpr const char* kF8 = "rate_infos { key: 20 ";
  EXPECT_THAT(description("l40s"), AllOf(HasSubstr("major: 8 minor: 9"), HasSubstr(kF8)));
  EXPECT_THAT(description("a100"), Not(HasSubstr(kF8)));
  EXPECT_THAT(description("rtx5090"),
              AllOf(HasSubstr("major: 12 minor: 0"), Not(HasSubstr("device_interconnect_info"))));
  for (const Chip& chip : chips()) {
    if (chip.family == Family::CUDA) {
      const std::string text = gpu_description(chip);
      EXPECT_EQ(std::ranges::count(text, '{'), std::ranges::count(text, '}')) << chip.name;
      EXPECT_THAT(text, Not(HasSubstr(": 0\n"))) << chip.name << ": a figure was left out";
    }
  }
}

TEST(Target, PlacesTpusByTheirIds) {
  EXPECT_EQ(parse_target("v5e:4x4").grid_place(6), (std::vector<int64_t>{0, 2, 1}));
  EXPECT_EQ(parse_target("v5p:2x2x2").grid_place(5), (std::vector<int64_t>{0, 1, 0, 1}));
  EXPECT_EQ(parse_target("tpu7x:2x2x1").grid_place(3), (std::vector<int64_t>{1, 1, 0, 0}));
  EXPECT_TRUE(parse_target("h100:8").grid_place(3).empty());
}

}  // namespace
}  // namespace kinema::planning
