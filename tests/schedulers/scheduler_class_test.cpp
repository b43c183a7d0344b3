#include "kinema/schedulers/scheduler_class.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kinema/core/error.h"
#include "kinema/schedulers/samplers.h"

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
  for (const SamplerInfo& each : samplers()) {
    EXPECT_EQ(supported_scheduler_class(each.class_name, "a").sampler, each.sampler);
  }
  for (const char* name : {"EDMEulerScheduler", "EDMDPMSolverMultistepScheduler"}) {
    EXPECT_FALSE(supported_scheduler_class(name, "a").is_trained());
  }
}

// Their networks would give noise with any other sampler.
TEST(SchedulerClass, OfOtherNetworksIsRefusedWithoutAdvice) {
  for (const char* name : {"CosineDPMSolverMultistepScheduler", "CMStochasticIterativeScheduler",
                           "SCMScheduler", "NoSuchScheduler"}) {
    EXPECT_THAT(
        [&] { supported_scheduler_class(name, "FILE"); },
        ThrowsMessage<Error>(AllOf(HasSubstr("FILE"), HasSubstr(std::string("`") + name + "`"),
                                   Not(HasSubstr("scheduler=")))));
  }
}

}  // namespace
}  // namespace kinema::schedulers
