// The steps of the shipped configurations, whose models are known by name and need not be
// downloaded.
#include <gtest/gtest.h>

#include <filesystem>

#include "kinema/planning/target.h"
#include "kinema/plans/planned_step.h"
#include "kinema/resolve/load.h"

namespace kinema::plans {
namespace {

class ReleasedPlans : public ::testing::TestWithParam<const char*> {};

TEST_P(ReleasedPlans, AreBuiltWithoutTheModel) {
  const std::filesystem::path file =
      std::filesystem::path(KINEMA_SOURCE_DIR) / "configs" / GetParam();
  const bool has_experts = file.filename().string().find("a14b") != std::string::npos;
  const std::vector<std::string> keys =
      has_experts ? std::vector<std::string>{"train_expert=low_noise"} : std::vector<std::string>{};
  const config::Loaded loaded = resolve::load(file.string(), keys, {});
  const PlannedStep training =
      build_planned_step(loaded, planning::parse_target("v5p:2x2x1"), PlanMode::TRAIN, {});
  EXPECT_NE(training.model.find("parameters"), std::string::npos);
  const PlannedStep sampling =
      build_planned_step(loaded, planning::parse_target("h100:1"), PlanMode::GENERATE, {});
  EXPECT_NE(sampling.model.find("parameters"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Shipped, ReleasedPlans,
                         ::testing::Values("wan21_t2v_1_3b.yml", "wan21_t2v_14b.yml",
                                           "wan21_i2v_14b.yml", "wan22_t2v_a14b.yml",
                                           "wan22_ti2v_5b.yml", "flux_dev.yml", "flux_dev_lora.yml",
                                           "sdxl.yml", "sdxl_lora.yml", "base_sd15.yml",
                                           "sd15_lora.yml"));

}  // namespace
}  // namespace kinema::plans
