#include "kinema/optimizers/schedule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "kinema/io/json.h"

namespace kinema::optimizers {
namespace {

TEST(Schedule, RisesFromZeroThenStaysConstant) {
  const Schedule schedule{.learning_rate = 2e-3, .steps = 100, .warmup_fraction = 0.1};

  EXPECT_EQ(schedule.warmup_steps(), 10);
  EXPECT_EQ(schedule(0), 0.0);  // the reference's first update has rate 0
  EXPECT_DOUBLE_EQ(schedule(5), 1e-3);
  EXPECT_DOUBLE_EQ(schedule(10), 2e-3);
  EXPECT_DOUBLE_EQ(schedule(100000), 2e-3);
}

TEST(Schedule, RoundsTheWarmupDown) {
  const Schedule schedule{.learning_rate = 1.0, .steps = 19, .warmup_fraction = 0.1};

  EXPECT_EQ(schedule.warmup_steps(), 1);
  EXPECT_EQ(schedule(0), 0.0);
  EXPECT_EQ(schedule(1), 1.0);
}

TEST(Schedule, StartsAtFullRateWithoutWarmup) {
  EXPECT_EQ((Schedule{.learning_rate = 0.5, .steps = 4, .warmup_fraction = 0.0})(0), 0.5);
}

TEST(Schedule, IsDescribedByWhereItBends) {
  EXPECT_EQ(describe(Schedule{.learning_rate = 2e-4, .steps = 20}),
            "learning rate 0.0002 after 2 steps");
  EXPECT_EQ(describe(Schedule{.learning_rate = 2e-4,
                              .steps = 20,
                              .warmup_fraction = 0,
                              .decay_fraction = 0.5,
                              .final_fraction = 0.1}),
            "learning rate 0.0002, decays from step 10 to 2e-05 at step 20");
}

TEST(Schedule, FallsLinearlyToTheFinalFraction) {
  const Schedule schedule{.learning_rate = 1.0,
                          .steps = 100,
                          .warmup_fraction = 0.0,
                          .decay_fraction = 0.4,
                          .final_fraction = 0.02};

  EXPECT_EQ(schedule(60), 1.0);
  EXPECT_DOUBLE_EQ(schedule(80), 0.51);
  EXPECT_DOUBLE_EQ(schedule(100), 0.02);
  EXPECT_DOUBLE_EQ(schedule(500), 0.02);
}

// transformers' get_cosine_with_hard_restarts_schedule_with_warmup(1000 steps, 3 cycles) and
// get_polynomial_decay_schedule_with_warmup(1000 steps, power 2, lr_end 0.1), both with a warmup of
// 100.
TEST(Schedule, RestartsTheCosineInEachCycle) {
  const Schedule schedule{.learning_rate = 1.0,
                          .steps = 1000,
                          .warmup_fraction = 0.1,
                          .decay_fraction = -1,
                          .decay_shape = Schedule::DecayShape::COSINE,
                          .cycles = 3};

  EXPECT_DOUBLE_EQ(schedule(100), 1.0);
  EXPECT_DOUBLE_EQ(schedule(250), 0.5);
  EXPECT_NEAR(schedule(399), 0.0, 1e-4);
  EXPECT_DOUBLE_EQ(schedule(400), 1.0);
  EXPECT_DOUBLE_EQ(schedule(850), 0.5);
  EXPECT_DOUBLE_EQ(schedule(1000), 0.0);
}

// torch's CosineAnnealingWarmRestarts(T_0=100, T_mult=2, eta_min=0): three cycles of 100, 200 and
// 400 steps.
TEST(Schedule, RestartsInLongerCycles) {
  Schedule schedule{.learning_rate = 1.0,
                    .steps = 700,
                    .warmup_fraction = 0,
                    .decay_fraction = -1,
                    .decay_shape = Schedule::DecayShape::COSINE,
                    .cycles = 3,
                    .cycle_growth = 2};

  EXPECT_DOUBLE_EQ(schedule(0), 1.0);
  EXPECT_NEAR(schedule(50), 0.5, 1e-12);
  EXPECT_NEAR(schedule(99), 0.5 * (1 + std::cos(M_PI * 0.99)), 1e-12);
  EXPECT_NEAR(schedule(100), 1.0, 1e-12);
  EXPECT_NEAR(schedule(250), 0.5 * (1 + std::cos(M_PI * 0.75)), 1e-12);
  EXPECT_NEAR(schedule(300), 1.0, 1e-12);
  EXPECT_NEAR(schedule(500), 0.5, 1e-12);
  EXPECT_NEAR(schedule(700), 0.0, 1e-12);

  schedule.cycle_peak = 0.5;
  EXPECT_NEAR(schedule(100), 0.5, 1e-12);
  EXPECT_NEAR(schedule(500), 0.125, 1e-12);
}

TEST(Schedule, IsAdafactorsRelativeStep) {
  Schedule schedule{.learning_rate = 7, .relative_step = Schedule::RelativeStep::PLAIN};

  EXPECT_EQ(schedule(0), 1e-2);
  EXPECT_DOUBLE_EQ(schedule(39999), 1.0 / 200);
  EXPECT_EQ(describe(schedule), "learning rate of Adafactor: min(0.01, 1 / sqrt(t)) in step t");
  schedule.relative_step = Schedule::RelativeStep::WARMUP;
  EXPECT_DOUBLE_EQ(schedule(9), 1e-5);
  EXPECT_DOUBLE_EQ(schedule(999999), 1e-3);
}

TEST(Schedule, DecaysByAPolynomialOrByRex) {
  Schedule schedule{.learning_rate = 1.0,
                    .steps = 1000,
                    .warmup_fraction = 0.1,
                    .decay_fraction = -1,
                    .final_fraction = 0.1,
                    .decay_shape = Schedule::DecayShape::POLYNOMIAL,
                    .power = 2};

  EXPECT_DOUBLE_EQ(schedule(550), 0.9 * 0.25 + 0.1);
  EXPECT_DOUBLE_EQ(schedule(1000), 0.1);
  EXPECT_DOUBLE_EQ(schedule(2000), 0.1);

  schedule.decay_shape = Schedule::DecayShape::REX;
  schedule.final_fraction = 0.0;
  EXPECT_DOUBLE_EQ(schedule(550), 0.5 / 0.75);
  EXPECT_DOUBLE_EQ(schedule(1000), 0.0);
}

TEST(Schedule, FallsByHalfACosineOverAllThatTheWarmupLeaves) {
  const Schedule schedule{.learning_rate = 1.0,
                          .steps = 110,
                          .warmup_fraction = 0.1,
                          .decay_fraction = -1,
                          .final_fraction = 0.2,
                          .decay_shape = Schedule::DecayShape::COSINE};

  EXPECT_EQ(schedule.warmup_steps(), 11);
  EXPECT_EQ(schedule.decay_steps(), 99);
  EXPECT_EQ(schedule(11), 1.0);
  EXPECT_DOUBLE_EQ(schedule(11 + 33), 0.2 + 0.8 * 0.75);  // cos(pi / 3) is a half
  EXPECT_DOUBLE_EQ(schedule(110), 0.2);
  EXPECT_DOUBLE_EQ(schedule(1000), 0.2);
  EXPECT_EQ(describe(schedule),
            "learning rate 1 after 11 steps, decays by half a cosine from step 11 to 0.2 at step "
            "110");
}

TEST(Schedule, IsOptaxsForEveryShape) {
  const io::Json golden =
      io::Json::read(std::filesystem::path(KINEMA_SOURCE_DIR) / "tests/golden/schedules.json");
  const auto steps = golden.at("steps").as_int();
  for (const auto& [name, each] : golden.at("cases").members()) {
    const auto share = [&, &each = each](const char* key) {
      return each.at(key).as_number() / static_cast<double>(steps);
    };
    const Schedule schedule{.learning_rate = golden.at("learning_rate").as_number(),
                            .steps = steps,
                            .warmup_fraction = share("warmup_steps"),
                            .decay_fraction = share("decay_steps"),
                            .final_fraction = golden.at("final_fraction").as_number(),
                            .decay_shape = name.find("cosine") == std::string::npos
                                               ? Schedule::DecayShape::LINE
                                               : Schedule::DecayShape::COSINE};
    ASSERT_EQ(schedule.decay_steps(), each.at("decay_steps").as_int()) << name;
    const auto& at = golden.at("at").items();
    const auto& rates = each.at("rates").items();
    ASSERT_EQ(rates.size(), at.size());
    for (size_t i = 0; i < at.size(); ++i) {
      // Both in double precision, with about ten roundings; near zero relative to the rate.
      EXPECT_NEAR(schedule(at[i].as_int()), rates[i].as_number(), 1e-14 * schedule.learning_rate)
          << name << " at " << at[i].as_int();
    }
  }
}

}  // namespace
}  // namespace kinema::optimizers
