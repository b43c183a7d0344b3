#include "kinema/schedulers/scheduler_class.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kinema/core/error.h"
#include "kinema/schedulers/schedule.h"

namespace kinema::schedulers {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::ThrowsMessage;

TEST(SchedulerClass, SaysWhatWasLearned) {
  EXPECT_EQ(scheduler_class("EulerAncestralDiscreteScheduler")->process, Process::DIFFUSION);
  EXPECT_EQ(scheduler_class("FlaxDDIMScheduler")->process, Process::DIFFUSION);
  EXPECT_EQ(scheduler_class("FlowMatchHeunDiscreteScheduler")->process, Process::FLOW);
  EXPECT_EQ(scheduler_class("UniPCMultistepScheduler")->process, Process::DIFFUSION_OR_FLOW);
  EXPECT_EQ(scheduler_class("EDMDPMSolverMultistepScheduler")->process, Process::EDM);
  EXPECT_EQ(scheduler_class("DDIM"), nullptr);
  EXPECT_EQ(scheduler_class(""), nullptr);
}

TEST(SchedulerClass, OfEverySamplerIsSupported) {
  for (const Sampler sampler :
       {Sampler::UNIPC, Sampler::FLOW_MATCH_EULER, Sampler::EULER, Sampler::DDIM}) {
    EXPECT_TRUE(supported_scheduler_class(class_name(sampler), "a").is_supported());
  }
}

// Their networks would give noise with any other sampler.
TEST(SchedulerClass, OfOtherNetworksIsRefusedWithoutAdvice) {
  for (const char* name :
       {"EDMEulerScheduler", "EDMDPMSolverMultistepScheduler", "CosineDPMSolverMultistepScheduler",
        "CMStochasticIterativeScheduler", "SCMScheduler", "NoSuchScheduler"}) {
    EXPECT_THAT(
        [&] { supported_scheduler_class(name, "FILE"); },
        ThrowsMessage<Error>(AllOf(HasSubstr("FILE"), HasSubstr(std::string("`") + name + "`"),
                                   Not(HasSubstr("scheduler=")))));
  }
}

}  // namespace
}  // namespace kinema::schedulers
