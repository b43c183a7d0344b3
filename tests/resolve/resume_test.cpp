// Settings and log lines of a resumed run before its first step, and its disk space.
#include "kinema/resolve/resume.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kinema/core/error.h"

namespace kinema::resolve {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;

/// A run of 20 steps that stopped after `step`.
Start after(int64_t step) {
  config::Config config;
  config.optimizer.max_train_steps = 20;
  config = with_schedule(config, {});
  return {.folder = "absent/checkpoints/x",
          .saved = {.step = step, .settings = config::record_of(config)}};
}

config::Config longer(int64_t steps) {
  config::Config out;
  out.optimizer.max_train_steps = steps;
  return out;
}

TEST(ARunThatIsMadeLonger, KeepsItsFirstSchedule) {
  config::Config config = longer(40);
  config = with_schedule(config, after(20));
  EXPECT_EQ(config.optimizer.learning_rate_schedule_steps, 20);
  EXPECT_THAT(resume_lines(after(20), config),
              ElementsAre("changed: max_train_steps: 20 -> 40", HasSubstr("moments start at zero"),
                          HasSubstr("keeps the run's original schedule of 20 steps")));

  config.optimizer.learning_rate_schedule_steps = 40;  // given
  config = with_schedule(config, after(20));
  EXPECT_EQ(config.optimizer.learning_rate_schedule_steps, 40);
}

TEST(ARunThatBegins, HasAScheduleOfItsOwnLength) {
  config::Config config = longer(40);
  config = with_schedule(config, {});
  EXPECT_EQ(config.optimizer.learning_rate_schedule_steps, 40);
  EXPECT_THAT(resume_lines({}, config), IsEmpty());
}

TEST(ARunThatIsMadeLonger, RefusesStepsAtRateZero) {
  const optimizers::Schedule to_zero{.steps = 20, .decay_fraction = 0.5};
  const optimizers::Schedule to_a_tenth{.steps = 20, .decay_fraction = 0.5, .final_fraction = 0.1};
  for (const int64_t step : {10, 20}) {
    EXPECT_THAT([&] { check_rate(to_zero, after(step), 40); },
                ThrowsMessage<Error>(HasSubstr("learning_rate_schedule_steps=40")));
    EXPECT_NO_THROW(check_rate(to_a_tenth, after(step), 40));
    EXPECT_NO_THROW(check_rate(to_zero, after(step), 20)) << "as long as it was";
  }
  EXPECT_NO_THROW(check_rate(to_zero, {}, 40)) << "it was asked for";
}

TEST(CheckpointsToKeep, AreAllOfAnEarlierRunUnlessTheKeyIsGiven) {
  Start older = after(3);
  older.saved.settings.erase("max_train_steps");
  EXPECT_EQ(checkpoint_keep(config::load_defaults(), older).newest, 0);
  EXPECT_EQ(checkpoint_keep(config::load_defaults(), after(3)).newest, 2);
  EXPECT_EQ(checkpoint_keep(config::load_defaults(), {}).newest, 2);
  const std::vector<std::string> given{"checkpoints_to_keep=3"};
  EXPECT_EQ(checkpoint_keep(config::load_defaults(given), older).newest, 3);
}

}  // namespace
}  // namespace kinema::resolve
