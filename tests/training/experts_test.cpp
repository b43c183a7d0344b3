#include "kinema/training/experts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <tuple>

#include "arrays.h"
#include "io/scratch.h"
#include "kinema/core/error.h"
#include "kinema/io/json.h"
#include "training/tiny.h"

namespace kinema::training {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(ExpertSchedule, HaveTheSharesOfTheDistribution) {
  constexpr int64_t kSteps = 20000;
  for (const double share : {0.25, 0.3, 0.5, 0.9}) {
    const ExpertSchedule schedule{.seed = 3, .high_noise_probability = share};
    const int64_t high = schedule.count(0, kSteps);
    EXPECT_EQ(high + schedule.count(1, kSteps), kSteps);
    // Binomial: five deviations of sqrt(p (1 - p) / n), at most 0.018.
    EXPECT_NEAR(static_cast<double>(high) / kSteps, share,
                5 * std::sqrt(share * (1 - share) / kSteps));
    // Whether two neighbouring steps are both high tests their independence: probability p^2 for n
    // - 1 pairs; since each step is in two pairs, the count's variance is below 3 n p^2 (1 - p^2).
    int64_t both = 0;
    for (int64_t step = 1; step < kSteps; ++step) {
      both += schedule.expert_of(step - 1) == 0 && schedule.expert_of(step) == 0 ? 1 : 0;
    }
    const double square = share * share;
    EXPECT_NEAR(static_cast<double>(both) / kSteps, square,
                5 * std::sqrt(3 * square * (1 - square) / kSteps));
  }
  EXPECT_EQ((ExpertSchedule{.high_noise_probability = 1}).count(0, 1000), 1000);
  EXPECT_EQ((ExpertSchedule{.high_noise_probability = 0}).count(1, 1000), 1000);
}

TEST(ExpertSchedule, AreAFunctionOfSeedAndStep) {
  const ExpertSchedule schedule{.seed = 3, .high_noise_probability = 0.5};
  std::vector<int64_t> forward;
  for (int64_t step = 0; step < 64; ++step) {
    forward.push_back(schedule.expert_of(step));
  }
  for (int64_t step = 63; step >= 0; --step) {
    EXPECT_EQ(schedule.expert_of(step), forward[static_cast<size_t>(step)]);
  }
  const ExpertSchedule other{.seed = 4, .high_noise_probability = 0.5};
  bool differ = false;
  for (int64_t step = 0; step < 64; ++step) {
    differ = differ || other.expert_of(step) != forward[static_cast<size_t>(step)];
  }
  EXPECT_TRUE(differ);
}

TEST(ExpertSchedule, OfSeveralStepsAreThoseOfOneDrawnOut) {
  const ExpertSchedule one{.seed = 9, .high_noise_probability = 0.3};
  const ExpertSchedule five{.seed = 9, .high_noise_probability = 0.3, .length = 5};
  for (int64_t step = 0; step < 500; ++step) {
    ASSERT_EQ(five.expert_of(step), one.expert_of(step / 5)) << step;
  }
  for (const int64_t steps : {0, 1, 4, 5, 17, 100}) {
    int64_t high = 0;
    for (int64_t step = 0; step < steps; ++step) {
      high += five.expert_of(step) == 0 ? 1 : 0;
    }
    EXPECT_EQ(five.count(0, steps), high);
    EXPECT_EQ(five.count(1, steps), steps - high);
  }
}

TEST(ShareOfHighNoise, IsThatOfTheTimestepsThatAreDrawn) {
  const auto share = [](double shift, double boundary, double min = 0, double max = 1000) {
    return high_noise_probability(
        {.flow = {.shift = shift}, .min_timestep = min, .max_timestep = max, .boundary = boundary});
  };
  // u(t) = t / (1000 s - (s - 1) t): with s = 3, u(875) = 875 / 1250; with s = 5, 875 / 1500.
  EXPECT_NEAR(share(3, 875), 0.3, 1e-12);
  EXPECT_NEAR(share(5, 875), 1 - 875.0 / 1500, 1e-12);
  EXPECT_NEAR(share(1, 900), 0.1, 1e-12);
  // u(500) = 0.25, u(950) = 950 / 1100.
  EXPECT_NEAR(share(3, 875, 500, 950), (950.0 / 1100 - 0.7) / (950.0 / 1100 - 0.25), 1e-12);
  EXPECT_EQ(share(3, 875, 900, 1000), 1);
  EXPECT_EQ(share(3, 875, 0, 500), 0);
}

constexpr double kBoundary = 875;
const StepOptions kOptions{.adamw = {.weight_decay = 0.01, .max_norm = 1.0},
                           .objective = {.stratified = true},
                           .ema = {.decay = 0.9}};

class BothExperts : public pjrt::CpuTest {
 protected:
  /// The second network's parameters differ from the first's.
  State fresh(int64_t expert) {
    State out = fresh_state(tiny::params(client_), tiny::specs(), true, client_);
    if (expert == 1) {
      for (runtime::Array& array : out.trained) {
        HostArray values = array.to_host();
        for (float& x : values.as<float>()) {
          x *= 1.125F;
        }
        array = client_.to_device(values);
      }
    }
    return out;
  }

  TwoExperts two(bool idle_on_host = false) const {
    return {.schedule = {.seed = 1, .high_noise_probability = 0.5}, .idle_on_host = idle_on_host};
  }

  std::unique_ptr<Trainer> trainer() {
    StepOptions step = kOptions;
    step.objective.boundary = kBoundary;
    return std::make_unique<Trainer>(tiny::trainer(client_, 2, step, State()));
  }

  Experts fresh_experts(bool idle_on_host = false) {
    Experts out(trainer(), two(idle_on_host));
    for (const int64_t expert : {1, 0}) {
      out.set_state(expert, fresh(expert));
    }
    return out;
  }

  static std::vector<double> run(Experts& experts, int64_t from, int64_t to) {
    std::vector<double> losses;
    for (int64_t step = from; step < to; ++step) {
      losses.push_back(experts.run(step, 1e-2, tiny::batch(2, step)).loss);
    }
    return losses;
  }

  static auto bytes_of(Experts& experts) {
    auto out = tiny::bytes_of(experts.state(0));
    const auto low = tiny::bytes_of(experts.state(1));
    out.insert(out.end(), low.begin(), low.end());
    return out;
  }

  static constexpr int64_t kSteps = 8;
  pjrt::Client client_ = pjrt::cpu_client();
};

TEST_F(BothExperts, TrainAsOneRunPerExpert) {
  // They are separate programs: a compiler may fuse a multiply and an add in one and not in the
  // other. Eight steps of such roundings of values up to 2.
  constexpr double kRounding = 0x1p-20;
  Experts experts = fresh_experts();
  const std::vector<double> losses = run(experts, 0, kSteps);

  StepOptions high = kOptions;
  high.objective.min_timestep = kBoundary;
  StepOptions low = kOptions;
  low.objective.max_timestep = kBoundary;
  std::array<Trainer, 2> alone{tiny::trainer(client_, 2, high, fresh(0)),
                               tiny::trainer(client_, 2, low, fresh(1))};
  std::array<int64_t, 2> made{};
  for (int64_t step = 0; step < kSteps; ++step) {
    const auto expert = static_cast<size_t>(two().schedule.expert_of(step));
    EXPECT_EQ(experts.steps_before(step), made[expert]);
    ++made[expert];
    EXPECT_NEAR(losses[static_cast<size_t>(step)],
                alone[expert].run(step, 1e-2, tiny::batch(2, step)).loss, kRounding)
        << step;
  }
  EXPECT_GT(made[0], 0);
  EXPECT_GT(made[1], 0);
  for (size_t expert = 0; expert < 2; ++expert) {
    const StateView state = experts.state(static_cast<int64_t>(expert));
    const StateView own = alone[expert].state();
    const auto together = state.parts.all();
    const auto apart = own.parts.all();
    ASSERT_EQ(together.size(), apart.size());
    for (size_t i = 0; i < together.size(); ++i) {
      if (together[i]->shape().dtype == DType::F32) {
        EXPECT_LE(largest_difference(together[i]->to_host(), apart[i]->to_host()), kRounding) << i;
      }
    }
    EXPECT_EQ(state.parts.counts->to_host().as<int32_t>()[0], made[expert])
        << "an expert counts its own updates";
  }
  EXPECT_NO_THROW(experts.check_replicas());
}

TEST_F(BothExperts, GiveTheSameWithTheIdleExpertOnHostOrDevice) {
  Experts device = fresh_experts(false);
  Experts host = fresh_experts(true);
  EXPECT_EQ(run(device, 0, kSteps), run(host, 0, kSteps));
  EXPECT_TRUE(bytes_of(device) == bytes_of(host));
  EXPECT_EQ(device.idle_bytes().device, device.trainer().state_bytes());
  EXPECT_EQ(device.idle_bytes().host, 0);
  EXPECT_EQ(host.idle_bytes().device, 0);
  EXPECT_EQ(host.idle_bytes().host, host.trainer().state_bytes());
}

TEST_F(BothExperts, ResumeFromACheckpointBitForBit) {
  Experts unbroken = fresh_experts();
  std::vector<double> expected = run(unbroken, 0, kSteps);
  for (const bool on_host : {false, true}) {
    SCOPED_TRACE(on_host);
    const io::Scratch scratch;
    std::array<int64_t, 2> updates{};
    {
      Experts first = fresh_experts(on_host);
      run(first, 0, 5);
      const std::vector<StateSource> states{first.source(0), first.source(1)};
      const std::vector<StateSource> copies{host_copy(states[0]), host_copy(states[1])};
      updates = {two().schedule.count(0, 5), two().schedule.count(1, 5)};
      save_states(scratch / "5", tiny::network(), copies, {.step = 5});
    }
    EXPECT_THAT(weights_parts(scratch / "5"),
                ::testing::ElementsAre("transformer", "transformer_2"));
    Experts second(trainer(), two(on_host));
    for (const int64_t expert : {1, 0}) {
      State loaded =
          load_state(scratch / "5", tiny::specs(), true, client_, plain_adamw(), {}, expert);
      EXPECT_EQ(loaded.counts->to_host().as<int32_t>()[0], updates.at(static_cast<size_t>(expert)));
      second.set_state(expert, std::move(loaded));
    }
    const std::vector<double> rest = run(second, 5, kSteps);
    EXPECT_EQ(rest, std::vector<double>(expected.begin() + 5, expected.end()));
    EXPECT_TRUE(bytes_of(second) == bytes_of(unbroken));
  }
}

// Whichever ran last: each continues with its own counts.
TEST_F(BothExperts, KeepTheCountsOfTheirAveragesWithoutASavedOptimizer) {
  const io::Scratch scratch;
  Experts first = fresh_experts();
  run(first, 0, 5);
  const std::vector<StateSource> states{first.source(0), first.source(1)};
  save_states(scratch / "5", tiny::network(), states, {.step = 5}, {.optimizer = false});
  const io::Json saved = io::Json::read(scratch / "5" / "train_state.json");
  for (const int64_t expert : {0, 1}) {
    const auto made = static_cast<int32_t>(two().schedule.count(expert, 5));
    EXPECT_EQ(saved.at(expert == 0 ? "updates" : "updates_2").as_int(), made);
    const State loaded =
        load_state(scratch / "5", tiny::specs(), true, client_, plain_adamw(), {}, expert);
    const HostArray counts = loaded.counts->to_host();
    EXPECT_THAT(counts.as<int32_t>(), ::testing::ElementsAre(made, 0, made)) << expert;
  }
}

TEST_F(BothExperts, AreNotInACheckpointOfOneExpert) {
  const io::Scratch scratch;
  const State state = fresh(0);
  save_state(scratch / "1", tiny::network(), {tiny::specs(), state},
             {.step = 1, .weights = "transformer_2"});
  EXPECT_THAT(weights_parts(scratch / "1"), ::testing::ElementsAre("transformer_2"));
  EXPECT_THAT(
      [&] { load_state(scratch / "1", tiny::specs(), true, client_, plain_adamw(), {}, 1); },
      ThrowsMessage<Error>(HasSubstr("contains only transformer_2, not both experts")));
}

TEST_F(BothExperts, NameTheStepThatIsNotFiniteByItsExpert) {
  Experts experts(trainer(), two());
  experts.set_state(1, fresh(1));
  State bad = fresh(0);
  HostArray values = bad.trained[0].to_host();
  values.as<float>()[0] = NAN;
  bad.trained[0] = client_.to_device(values);
  experts.set_state(0, std::move(bad));
  for (int64_t step = 0; step < kSteps; ++step) {
    const bool is_high = two().schedule.expert_of(step) == 0;
    const StepResult result = experts.run(step, 1e-2, tiny::batch(2, step));
    EXPECT_EQ(result.finite, !is_high) << step;
    if (is_high) {
      EXPECT_THAT(
          std::as_const(experts).trainer().find_nonfinite(
              step, tiny::batch(2, step), tapped_network_model(tiny::network(), tiny::options())),
          HasSubstr("parameter " + tiny::specs()[0].key(0)));
      return;
    }
  }
  FAIL() << "no step was of the high-noise expert";
}

}  // namespace
}  // namespace kinema::training
