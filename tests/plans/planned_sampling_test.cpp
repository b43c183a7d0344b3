// What `plan` says of a denoising step is what `generate` does with the same keys.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "io/scratch.h"
#include "kinema/planning/target.h"
#include "kinema/plans/planned_step.h"
#include "kinema/resolve/load.h"

namespace kinema::plans {
namespace {

using testing::HasSubstr;
using testing::Not;

PlannedStep sampling(std::vector<std::string> keys) {
  keys.insert(keys.begin(), {"height=64", "width=64", "max_sequence_length=32"});
  return build_planned_step(resolve::load("", keys, {}), planning::parse_target("h100:1"),
                            PlanMode::GENERATE, {});
}

std::string model(const std::string& folder) {
  return "pretrained_model_name_or_path=" + io::golden(folder).string();
}

TEST(PlannedSampling, HasNoGuidanceWhereTheModelWasDistilled) {
  EXPECT_THAT(sampling({model("zimage/zimage")}).inputs, HasSubstr("with guidance"));
  EXPECT_THAT(sampling({model("zimage/zimage_turbo")}).inputs, Not(HasSubstr("with guidance")));
  const std::string name = "pretrained_model_name_or_path=Tongyi-MAI/Z-Image";
  EXPECT_THAT(sampling({name}).inputs, HasSubstr("with guidance"));
  EXPECT_THAT(sampling({name + "-Turbo"}).inputs, Not(HasSubstr("with guidance")));
  EXPECT_THAT(sampling({name + "-Turbo", "guidance_scale=2"}).inputs, HasSubstr("with guidance"));
}

// A ControlNet's parameters and its picture are inputs of the step.
TEST(PlannedSampling, HasTheControlNets) {
  const auto inputs = [](const std::vector<std::string>& keys) {
    return sampling(keys).graph->inputs().size();
  };
  for (const auto& [base, net] : {std::pair("zimage/zimage_turbo", "zimage/zimage_controlnet1"),
                                  std::pair("control/sdxl", "control/sdxl_controlnet1")}) {
    const size_t alone = inputs({model(base)});
    const size_t with = inputs(
        {model(base), "controlnet=" + io::golden(net).string(), "control_image=picture.png"});
    EXPECT_GT(with, alone + 10) << net;
  }
}

}  // namespace
}  // namespace kinema::plans
