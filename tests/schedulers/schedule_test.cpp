#include "kinema/schedulers/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <utility>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/schedulers/levels.h"
#include "kinema/schedulers/samplers.h"

namespace kinema::schedulers {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

/// Runs a schedule on numbers, with `velocity(x, t)` as the model.
template <typename Velocity>
std::vector<double> run(const Schedule& schedule, std::vector<double> xs, Velocity velocity) {
  for (double& x : xs) {
    double previous = 0;
    double m1 = 0;
    double m2 = 0;
    for (int64_t i = 0; i < schedule.size(); ++i) {
      const StepCoefficients& k = schedule.steps[i];
      const double v = velocity(x, static_cast<double>(schedule.timesteps[i]));
      const double m0 = k.data_x * x + k.data_v * v;
      const double c = k.correct_x * x + k.correct_previous * previous + k.correct_m0 * m0 +
                       k.correct_m1 * m1 + k.correct_m2 * m2;
      x = k.from_c * c + k.from_m0 * m0 + k.from_m1 * m1 + k.from_v * v;
      previous = c;
      m2 = m1;
      m1 = m0;
    }
  }
  return xs;
}

TEST(UniPc, TimestepsAreTruncated) {
  EXPECT_THAT(make_schedule({.shift = 5.0}, 4).timesteps, ElementsAre(999, 937, 833, 625));
  EXPECT_THAT(
      make_schedule({.shift = 3.0}, 30).timesteps,
      ElementsAre(999, 988, 976, 964, 951, 937, 923, 908, 892, 875, 857, 838, 818, 797, 774, 750,
                  724, 696, 667, 635, 600, 563, 522, 478, 429, 376, 317, 251, 178, 96));
  EXPECT_THAT(make_schedule({.shift = 12.0}, 40).timesteps,
              ElementsAre(999, 997, 995, 993, 990, 988, 985, 982, 979, 976, 973, 969, 965, 961, 957,
                          952, 947, 942, 936, 930, 923, 915, 907, 898, 889, 878, 866, 852, 837, 820,
                          800, 777, 750, 719, 680, 633, 573, 496, 391, 242));
}

TEST(UniPc, TakesASingleStepOfAnyOrder) {
  ScheduleConfig config{.shift = 5.0};
  config.solver.order = 3;
  config.solver.lower_order_final = false;
  EXPECT_EQ(make_schedule(config, 1).steps.size(), 1U);
  EXPECT_THAT([&] { make_schedule(config, 3); },
              ThrowsMessage<Error>(HasSubstr("would divide by zero")));
}

TEST(UniPc, SigmasBeginBelowOneAndEndAtZero) {
  const Schedule schedule = make_schedule({.shift = 5.0}, 4);

  ASSERT_EQ(schedule.sigmas.size(), 5U);
  EXPECT_FLOAT_EQ(schedule.sigmas.front(), 1.0F - 1e-6F);
  EXPECT_EQ(schedule.sigmas.back(), 0.0F);
}

// Final samples of the reference's scheduler class for v = sin x + 0.0005 t x - 0.3 from x =
// linspace(-1.5, 1.5, 6); it runs in float32 and agrees with double to 2e-7 of values near 1.
TEST(UniPc, FollowsTheReferenceOnAToyModel) {
  const auto velocity = [](double x, double t) { return std::sin(x) + 0.0005 * t * x - 0.3; };
  const std::vector<double> start{-1.5, -0.9, -0.3};
  struct Case {
    int64_t steps;
    double shift;
    std::vector<double> finals;
  };
  const std::vector<Case> cases{
      {1, 5.0, {0.54674294, 0.63287538, 0.44536946}},
      {2, 12.0, {0.40559496, 0.47876574, 0.35956638}},
      {8, 3.0, {-0.26105010, -0.06545752, 0.10069856}},
      {20, 5.0, {-0.28568099, -0.08014487, 0.09498538}},
      {40, 12.0, {-0.27717180, -0.07471523, 0.09720283}},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.steps);
    const auto finals = run(make_schedule({.shift = c.shift}, c.steps), start, velocity);
    for (size_t i = 0; i < finals.size(); ++i) {
      EXPECT_NEAR(finals[i], c.finals[i], 1e-6);
    }
  }
}

TEST(UniPc, TheLastStepIsTheDataPrediction) {
  const Schedule schedule = make_schedule({.shift = 3.0}, 6);
  const StepCoefficients& last = schedule.steps.back();

  EXPECT_EQ(last.from_m0, 1.0F);
  EXPECT_THAT((std::vector<float>{last.from_c, last.from_m1, last.from_v}), Each(0.0F));
}

// On a straight path (v constant) every sampler is exact: x_0 = x - sigma_0 v.
TEST(Samplers, AreExactOnAStraightPath) {
  for (const Sampler sampler : {Sampler::UNIPC, Sampler::FLOW_MATCH_EULER}) {
    SCOPED_TRACE(class_name(sampler));
    const Schedule schedule = make_schedule({.sampler = sampler, .shift = 5.0}, 7);
    const auto finals = run(schedule, {0.25}, [](double, double) { return 2.0; });
    // float32 coefficients, 7 steps: a few 1e-7 each; the corrector's large ones cancel to 1e-6.
    EXPECT_NEAR(finals[0], 0.25 - 2.0 * schedule.sigmas[0], 1e-5);
  }
}

TEST(FlowMatchEuler, ShiftsTheLowerEndTwice) {
  const Schedule schedule = make_schedule({.sampler = Sampler::FLOW_MATCH_EULER, .shift = 3.0}, 4);

  ASSERT_EQ(schedule.sigmas.size(), 5U);
  // The reference's README gives four decimals.
  EXPECT_NEAR(schedule.sigmas[0], 1.0, 5e-5);
  EXPECT_NEAR(schedule.sigmas[1], 0.8577, 5e-5);
  EXPECT_NEAR(schedule.sigmas[2], 0.6022, 5e-5);
  EXPECT_NEAR(schedule.sigmas[3], 0.0089, 5e-5);
  EXPECT_EQ(schedule.sigmas[4], 0.0F);
  EXPECT_FLOAT_EQ(schedule.steps[1].from_v, schedule.sigmas[2] - schedule.sigmas[1]);
}

TEST(Schedule, ValuesAreInTheOrderOfDeclaration) {
  const StepCoefficients k{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18};

  EXPECT_THAT(k.values(),
              ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18));
  EXPECT_EQ(static_cast<int64_t>(k.values().size()), StepCoefficients::kCount);
}

TEST(Schedule, RefusesNumbersOutOfRange) {
  EXPECT_THAT([] { make_schedule({}, 0); },
              ThrowsMessage<Error>(HasSubstr("num_inference_steps is 0, expected 1 to 1000")));
  EXPECT_THAT([] { make_schedule({}, 1001); }, ThrowsMessage<Error>(HasSubstr("1001")));
  EXPECT_THAT([] { make_schedule({.shift = 0.0}, 4); },
              ThrowsMessage<Error>(HasSubstr("flow_shift is 0")));
}

TEST(Schedule, RefusesNoiseLevelsThatCannotBeToldApart) {
  EXPECT_THAT([] { make_schedule({.shift = 1e7}, 50); },
              ThrowsMessage<Error>(HasSubstr("the same noise level")));
}

TEST(Schedule, NamesTheKnownSamplers) {
  EXPECT_EQ(sampler_from_string("FlowMatchEulerDiscreteScheduler").sampler,
            Sampler::FLOW_MATCH_EULER);
  EXPECT_EQ(sampler_from_string("unipc").sampler, Sampler::UNIPC);
  EXPECT_EQ(sampler_from_string("FlaxDDIMScheduler").sampler, Sampler::DDIM)
      << "MaxDiffusion's word";
  EXPECT_EQ(sampler_from_string("euler").sampler, Sampler::FLOW_MATCH_EULER);
  EXPECT_EQ(sampler_from_string("euler", /*flow=*/false).sampler, Sampler::EULER);
  EXPECT_THAT([] { sampler_from_string("NoSuchScheduler"); },
              ThrowsMessage<Error>(AllOf(HasSubstr("`NoSuchScheduler`"), HasSubstr("unipc"))));
}

TEST(Schedule, KnowsTheNamesOfOtherPrograms) {
  const NamedSampler webui = sampler_from_string("DPM++ 2M Karras", /*flow=*/false);
  EXPECT_EQ(webui.sampler, Sampler::DPM_MULTISTEP);
  EXPECT_EQ(webui.spread, Spread::KARRAS);
  EXPECT_FALSE(webui.solver.stochastic);
  const NamedSampler sde = sampler_from_string("dpmpp_3m_sde_exponential", /*flow=*/false);
  EXPECT_EQ(sde.sampler, Sampler::DPM_MULTISTEP);
  EXPECT_EQ(sde.spread, Spread::EXPONENTIAL);
  EXPECT_TRUE(sde.solver.stochastic);
  EXPECT_EQ(sde.solver.order, 3);
  EXPECT_EQ(sampler_from_string("Euler a").sampler, Sampler::EULER_ANCESTRAL);
  EXPECT_EQ(sampler_from_string("PLMS").sampler, Sampler::PNDM);
  EXPECT_EQ(sampler_from_string("DPM2").sampler, Sampler::KDPM2);
  EXPECT_EQ(sampler_from_string("DPM2 a Karras").sampler, Sampler::KDPM2_ANCESTRAL);
  EXPECT_EQ(sampler_from_string("dpm_2_ancestral").sampler, Sampler::KDPM2_ANCESTRAL);
  EXPECT_EQ(sampler_from_string("heun").sampler, Sampler::FLOW_MATCH_HEUN);
  EXPECT_EQ(sampler_from_string("Heun", /*flow=*/false).sampler, Sampler::HEUN);
  EXPECT_EQ(sampler_from_string("DEIS").sampler, Sampler::DEIS);
  EXPECT_EQ(sampler_from_string("dpmpp_2m_sde_gpu").solver,
            sampler_from_string("dpmpp_2m_sde").solver);
  EXPECT_FALSE(sampler_from_string("DPM++ 2S").solver.ancestral);
  for (const char* name : {"DPM++ 2S a", "dpmpp_2s_ancestral_karras"}) {
    EXPECT_EQ(sampler_from_string(name).sampler, Sampler::DPM_SINGLESTEP) << name;
    EXPECT_TRUE(sampler_from_string(name).solver.ancestral) << name;
  }
  EXPECT_THAT([] { sampler_from_string("karras"); },
              ThrowsMessage<Error>(HasSubstr("noise_levels=karras")));
}

TEST(Schedule, HasNamesInTheWebui) {
  for (const char* name :
       {"Euler", "Euler a", "Heun", "DPM++ 2M", "DPM++ 2M SDE", "DPM++ 2M SDE Heun", "DPM++ 3M SDE",
        "DPM++ SDE", "DPM++ 2S a", "DPM2", "DPM2 a", "LMS", "DDIM", "PLMS", "UniPC", "LCM"}) {
    const NamedSampler named = sampler_from_string(name, /*flow=*/false);
    EXPECT_EQ(webui_name({.sampler = named.sampler, .solver = named.solver}), name);
  }
}

TEST(Schedule, RefusesASamplerOfAnotherKindOfModel) {
  EXPECT_THAT([] { make_schedule({.sampler = Sampler::HEUN, .noise = Noise::FLOW}, 4); },
              ThrowsMessage<Error>(AllOf(HasSubstr("HeunDiscreteScheduler does not sample"),
                                         HasSubstr("scheduler=euler or unipc"))));
}

TEST(Schedule, TakesGivenLevels) {
  ScheduleConfig config{.sampler = Sampler::EULER, .levels = {.sigmas = {14.6, 3.0, 0.5}}};
  const Schedule schedule = make_schedule(config, 50);
  EXPECT_THAT(schedule.sigmas, ElementsAre(14.6F, 3.0F, 0.5F, 0.0F));
  config.levels.timesteps = {999, 500};
  EXPECT_THAT([&] { make_schedule(config, 50); }, ThrowsMessage<Error>(HasSubstr("both given")));
  config.levels.sigmas = {3.0, 14.6};
  config.levels.timesteps.clear();
  EXPECT_THAT([&] { make_schedule(config, 50); }, ThrowsMessage<Error>(HasSubstr("do not fall")));
}

// Levels of the paper's ten steps, which are those of its table.
TEST(Schedule, HasTheAlignedLevels) {
  const ScheduleConfig config{.sampler = Sampler::EULER, .levels = {.spread = Spread::AYS}};
  const Schedule schedule = make_schedule(config, 10);
  EXPECT_NEAR(schedule.sigmas[0], 14.615, 1e-3);
  EXPECT_NEAR(schedule.sigmas[4], 1.341, 1e-3);
  EXPECT_NEAR(schedule.sigmas[9], 0.1114, 1e-4);
  EXPECT_EQ(schedule.sigmas[10], 0.0F);
}

/// A trailing range computed in floats would have one step too many for some of these numbers.
TEST(Discrete, VisitsTheRequestedNumberOfTimesteps) {
  for (const Spacing spacing : {Spacing::LEADING, Spacing::TRAILING, Spacing::LINSPACE}) {
    for (const int64_t steps : {1, 2, 61, 103, 121, 999, 1000}) {
      ScheduleConfig config{.sampler = Sampler::EULER};
      config.diffusion.timestep_spacing = spacing;
      const Schedule schedule = make_schedule(config, steps);
      ASSERT_EQ(schedule.size(), steps);
      EXPECT_GE(schedule.timesteps.back(), 0.0F);
      EXPECT_LE(schedule.timesteps.front(), 999.0F);
      EXPECT_EQ(schedule.sigmas.back(), 0.0F);
    }
  }
}

TEST(Discrete, EndsAtTheDataForAnExactPrediction) {
  // With a single datum, a sample determines its noise, for either prediction type.
  constexpr double kData = 0.7;
  for (const Prediction prediction : {Prediction::EPSILON, Prediction::V_PREDICTION}) {
    for (const Sampler sampler : {Sampler::EULER, Sampler::DDIM}) {
      ScheduleConfig config{.sampler = sampler};
      config.diffusion.prediction_type = prediction;
      config.diffusion.timestep_spacing = Spacing::TRAILING;
      config.diffusion.set_alpha_to_one = true;
      const Schedule schedule = make_schedule(config, 8);
      // Euler's samples are those of the diffusion times sqrt(sigma^2 + 1); both begin with some
      // noise added to the datum.
      double x = sampler == Sampler::EULER
                     ? kData + schedule.sigmas[0] * 1.3
                     : (kData + schedule.sigmas[0] * 1.3) / std::hypot(schedule.sigmas[0], 1.0);
      for (int64_t i = 0; i < schedule.size(); ++i) {
        const StepCoefficients& k = schedule.steps[i];
        const double sigma = schedule.sigmas[i];
        const double root = std::hypot(sigma, 1.0);
        const double scaled = sampler == Sampler::EULER ? x : x * root;
        const double noise = (scaled - kData) / sigma;
        const double v = prediction == Prediction::EPSILON ? noise : (noise - sigma * kData) / root;
        const double m0 = k.data_x * x + k.data_v * v;
        EXPECT_NEAR(m0, kData, 1e-4) << "coefficients are floats, of sigmas up to 14.6";
        x = k.from_c * x + k.from_m0 * m0 + k.from_v * v;
      }
      EXPECT_NEAR(x, kData, 1e-4);
    }
  }
}

// k-diffusion's sampler, in its terms: t = -log sigma, and the step h goes to sigma_down.
TEST(Dpm2sAncestral, IsTheSamplerOfKDiffusion) {
  const auto predicted = [](double input) { return std::sin(2.0 * input) - 0.3; };
  const auto noise = [](size_t i) { return std::cos(static_cast<double>(i)); };
  const Schedule schedule =
      make_schedule({.sampler = Sampler::DPM_SINGLESTEP, .solver = {.ancestral = true}}, 5);
  ASSERT_EQ(schedule.size(), 9);
  ASSERT_TRUE(schedule.form.noise);
  double x = 10.0;
  double previous = 0.0;
  for (size_t i = 0; i < schedule.steps.size(); ++i) {
    const StepCoefficients& k = schedule.steps[i];
    const double m0 = k.data_x * x + k.data_v * predicted(k.input * x);
    const double c = k.correct_x * x + k.correct_previous * previous;
    x = k.from_c * c + k.from_m0 * m0 + k.from_noise * noise(i);
    previous = c;
  }
  double expected = 10.0;
  const auto data = [&](double at, double sigma) {
    return at - sigma * predicted(at / std::hypot(sigma, 1.0));
  };
  for (size_t i = 0; i + 1 < schedule.steps.size(); i += 2) {
    const double sigma = schedule.sigmas[i];
    const double next = schedule.sigmas[i + 2];
    const double up = next * std::sqrt(1.0 - next * next / (sigma * sigma));
    const double down = std::sqrt(next * next - up * up);
    const double h = std::log(sigma) - std::log(down);
    const double middle = std::exp(std::log(sigma) - h / 2.0);
    EXPECT_NEAR(schedule.sigmas[i + 1], middle, 1e-6 * middle);
    const double y = middle / sigma * expected - std::expm1(-h / 2.0) * data(expected, sigma);
    expected = down / sigma * expected - std::expm1(-h) * data(y, middle) + up * noise(i + 1);
  }
  expected = data(expected, schedule.sigmas[8]);
  // Coefficients are floats: some roundings of numbers up to 15 in each of nine evaluations.
  EXPECT_NEAR(x, expected, 1e-5 * 15.0);
}

TEST(FlowMatchEuler, ADynamicShiftIsTheOneThatItIsSaidToBe) {
  const ScheduleConfig moving{.sampler = Sampler::FLOW_MATCH_EULER,
                              .shift = 3.0,
                              .even_sigmas = true,
                              .dynamic_shift = DynamicShift{}};
  EXPECT_NEAR(moving.shift_of(4096), std::exp(1.15), 1e-12);
  ScheduleConfig fixed = moving;
  fixed.dynamic_shift.reset();
  EXPECT_EQ(fixed.shift_of(4096), 3.0);
  fixed.shift = moving.shift_of(1024);
  const Schedule a = make_schedule(moving, 7, 1024);
  const Schedule b = make_schedule(fixed, 7, 1024);
  for (size_t i = 0; i < a.sigmas.size(); ++i) {
    EXPECT_NEAR(a.sigmas[i], b.sigmas[i], 1e-6);
  }
}

TEST(Discrete, RefusesEpsilonOnlyAtTimestepsWithoutSignal) {
  ScheduleConfig config{.sampler = Sampler::DDIM};
  config.diffusion.rescale_betas_zero_snr = true;
  for (const Spacing spacing : {Spacing::TRAILING, Spacing::LINSPACE}) {
    config.diffusion.timestep_spacing = spacing;
    EXPECT_THAT(
        [&] { make_schedule(config, 4); },
        ThrowsMessage<Error>(AllOf(HasSubstr("timestep 999"), HasSubstr("scheduler=euler"))));
  }
  config.diffusion.prediction_type = Prediction::V_PREDICTION;
  EXPECT_NO_THROW(make_schedule(config, 4));
  config.sampler = Sampler::EULER;  // the remedy
  config.diffusion.prediction_type = Prediction::EPSILON;
  EXPECT_NO_THROW(make_schedule(config, 4));
}

// diffusers 0.42.1: DDIMScheduler(beta_start=0.00085, beta_end=0.012,
// beta_schedule="scaled_linear", rescale_betas_zero_snr=True, timestep_spacing="leading",
// steps_offset=1, set_alpha_to_one=False, clip_sample=False) with the prediction 0.25 x + 0.1.
TEST(Discrete, SamplesEpsilonWithZeroTerminalSnrWhereTheTimestepsHaveASignal) {
  ScheduleConfig config{.sampler = Sampler::DDIM};
  config.diffusion = {.beta_start = 0.00085,
                      .beta_end = 0.012,
                      .beta_schedule = BetaSchedule::SCALED_LINEAR,
                      .rescale_betas_zero_snr = true,
                      .prediction_type = Prediction::EPSILON,
                      .timestep_spacing = Spacing::LEADING,
                      .steps_offset = 1,
                      .set_alpha_to_one = false};
  const std::vector<std::pair<int64_t, std::vector<double>>> cases{
      {4, {3.027994155883789, -2.1667861938476562, 6.491182804107666}},
      {30, {15.289480209350586, -11.123871803283691, 32.898372650146484}}};
  for (const auto& [steps, finals] : cases) {
    const Schedule schedule = make_schedule(config, steps);
    const auto found =
        run(schedule, {1.0, -0.5, 2.0}, [](double x, double) { return 0.25 * x + 0.1; });
    for (size_t i = 0; i < finals.size(); ++i) {
      // float32 coefficients, and float32 in the reference: some 6e-8 a step.
      EXPECT_NEAR(found[i], finals[i], 1e-5 * std::abs(finals[i]));
    }
  }
}

// diffusers 0.42 with torch 2.15: scheduler.alphas_cumprod, bit for bit.
TEST(Discrete, HasTheReferencesTableOfNoise) {
  const auto table = [](BetaSchedule schedule) {
    return alphas_cumprod({.beta_start = 0.00085, .beta_end = 0.012, .beta_schedule = schedule},
                          1000);
  };
  const std::vector<float> linear = table(BetaSchedule::LINEAR);
  EXPECT_EQ(linear[250], 0.568788052F);
  EXPECT_EQ(linear[999], 0.00157896278F);
  const std::vector<float> scaled = table(BetaSchedule::SCALED_LINEAR);
  EXPECT_EQ(scaled[250], 0.673792303F);
  EXPECT_EQ(scaled[999], 0.00466009509F);
  EXPECT_EQ(table(BetaSchedule::SQUAREDCOS_CAP_V2)[999], 2.42873499e-09F);
}

// Timesteps of levels that lie on or beside a whole one are cut as the reference cuts them: one
// other timestep is 1e-2 of a latent's range.
TEST(Discrete, CutsTimestepsOfGivenLevelsAsTheReference) {
  ScheduleConfig config;
  config.sampler = Sampler::DPM_MULTISTEP;
  config.num_train_timesteps = 1000;
  config.levels.spread = Spread::EXPONENTIAL;
  config.diffusion.beta_start = 0.00085;
  config.diffusion.beta_end = 0.012;
  config.diffusion.beta_schedule = BetaSchedule::LINEAR;
  EXPECT_EQ(solver_levels(config, 3, 0).timesteps, (std::vector<double>{998, 246, 0}));
  config.diffusion.beta_schedule = BetaSchedule::SCALED_LINEAR;
  config.diffusion.rescale_betas_zero_snr = true;
  EXPECT_EQ(solver_levels(config, 8, 0).timesteps,
            (std::vector<double>{998, 996, 983, 923, 723, 294, 24, 0}));
}

}  // namespace
}  // namespace kinema::schedulers
