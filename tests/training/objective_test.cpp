#include "kinema/training/objective.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "kinema/graph/autodiff.h"
#include "kinema/runtime/program.h"
#include "kinema/training/batch.h"
#include "pjrt/cpu_plugin.h"

namespace kinema::training {
namespace {

using Objective = pjrt::CpuTest;

HostArray evaluate(Graph& graph, Tensor x) {
  return runtime::evaluate(pjrt::cpu_client(), graph, std::vector{x})[0];
}

Tensor key(Graph& graph, float seed) {
  return convert(constant_f32(graph, {2}, std::vector<float>{seed, 3}), DType::U32);
}

TEST_F(Objective, MixesLatentsAndNoiseBySigma) {
  Graph graph;
  const Tensor latents = constant_f32(graph, {2, 1}, std::vector<float>{2.0F, 2.0F});
  const Tensor noise = constant_f32(graph, {2, 1}, std::vector<float>{-1.0F, -1.0F});
  const Tensor t = constant_f32(graph, {2}, std::vector<float>{0.0F, 750.0F});
  const FlowBatch flow = flow_batch(latents, noise, t, {});

  const HostArray noisy = evaluate(graph, flow.noisy);
  const HostArray target = evaluate(graph, flow.target);

  const double sigma_min = 0.003 / 1.002;
  const double sigma = 0.25 * sigma_min + 0.75;
  EXPECT_NEAR(noisy.as<float>()[0], (1 - sigma_min) * 2 - sigma_min, 1e-6);
  EXPECT_NEAR(noisy.as<float>()[1], (1 - sigma) * 2 - sigma, 1e-6);
  EXPECT_EQ(target.as<float>()[0], -3.0F);
}

TEST_F(Objective, WeighsSquaredErrorsPerSampleInF32) {
  Graph graph;
  const Tensor prediction =
      convert(constant_f32(graph, {2, 2}, std::vector<float>{1, 1, 0, 0}), DType::BF16);
  const Tensor target = constant_f32(graph, {2, 2}, std::vector<float>{0, 3, 1, 1});
  const Tensor weight = constant_f32(graph, {2}, std::vector<float>{2, 0.5F});

  EXPECT_EQ(evaluate(graph, flow_loss(prediction, {.target = target}, weight)).as<float>()[0],
            (2 * (1 + 4) + 0.5F * (1 + 1)) / 4);
  EXPECT_EQ(evaluate(graph, flow_loss(prediction, {.target = target}, {})).as<float>()[0],
            (1 + 4 + 1 + 1) / 4.0F);
}

// kohya's conditional_loss and get_huber_threshold_if_needed, in double precision.
TEST_F(Objective, HasKohyasLossesOfAnError) {
  const std::vector<float> differences{0.0F, 0.05F, -2.0F};
  const double t = 400;
  for (const bool is_diffusion : {false, true}) {
    ObjectiveOptions options;
    if (is_diffusion) {
      options.diffusion = DiffusionObjective{};
    }
    const double alpha = schedulers::alphas_cumprod({}, 1000)[400];
    const double sigma = std::sqrt((1 - alpha) / alpha);
    using Threshold = ErrorLoss::Threshold;
    const std::vector<std::pair<Threshold, double>> thresholds{
        {Threshold::CONSTANT, 0.2 * 1.5},
        {Threshold::EXPONENTIAL, std::exp(std::log(0.2) / 1000 * t) * 1.5},
        {Threshold::SNR, (1 - 0.2) / ((1 + sigma) * (1 + sigma)) + 0.2}};
    for (const auto& [threshold, c] : thresholds) {
      if (threshold == Threshold::SNR && !is_diffusion) {
        continue;
      }
      for (const ErrorLoss::Kind kind : {ErrorLoss::Kind::L2, ErrorLoss::Kind::L1,
                                         ErrorLoss::Kind::HUBER, ErrorLoss::Kind::SMOOTH_L1}) {
        options.error = {.kind = kind, .threshold = threshold, .c = 0.2, .scale = 1.5};
        double wanted = 0;
        for (const double e : differences) {
          const double smooth = 2 * (std::sqrt(e * e + c * c) - c);
          wanted += kind == ErrorLoss::Kind::L2      ? e * e
                    : kind == ErrorLoss::Kind::L1    ? std::abs(e)
                    : kind == ErrorLoss::Kind::HUBER ? c * smooth
                                                     : smooth;
        }
        Graph graph;
        const Tensor latents = constant(graph, 0.5, {DType::F32, {1, 3}});
        const Tensor noise = constant(graph, -0.25, {DType::F32, {1, 3}});
        const FlowBatch flow =
            flow_batch(latents, noise, constant_f32(graph, {1}, std::vector<float>{400}), options);
        const Tensor prediction = flow.target - constant_f32(graph, {1, 3}, differences);
        EXPECT_NEAR(evaluate(graph, flow_loss(prediction, flow, {})).as<float>()[0], wanted / 3,
                    1e-6);
      }
    }
  }
}

// kohya's apply_debiased_estimation and apply_snr_weight, each and both.
TEST_F(Objective, WeighsByDebiasedEstimation) {
  for (const auto prediction :
       {schedulers::Prediction::EPSILON, schedulers::Prediction::V_PREDICTION}) {
    for (const double gamma : {0.0, 5.0}) {
      ObjectiveOptions options;
      options.diffusion = DiffusionObjective{.snr_gamma = gamma, .debiased = true};
      options.diffusion->diffusion.prediction_type = prediction;
      Graph graph;
      const Draw drawn = draw(key(graph, 3), constant(graph, 0.0, {DType::F32, {64, 1}}), options);
      const HostArray t = evaluate(graph, drawn.timestep);
      const HostArray weight = evaluate(graph, drawn.weight);
      const auto alphas = schedulers::alphas_cumprod(options.diffusion->diffusion, 1000);
      for (size_t i = 0; i < 64; ++i) {
        const double alpha = alphas[static_cast<size_t>(t.as<float>()[i])];
        const double snr = alpha / (1 - alpha);
        const double most = std::min(snr, 1000.0);
        const bool v = prediction == schedulers::Prediction::V_PREDICTION;
        double wanted = v ? 1 / (most + 1) : 1 / std::sqrt(most);
        if (gamma > 0) {
          wanted *= std::min(snr, gamma) / (v ? snr + 1 : snr);
        }
        EXPECT_NEAR(weight.as<float>()[i], wanted, 3e-7 * wanted) << t.as<float>()[i];
      }
    }
  }
}

// kohya's ip_noise_gamma, diffusers' input_perturbation.
TEST_F(Objective, PerturbsTheInputsNoiseAlone) {
  for (const bool is_diffusion : {false, true}) {
    Graph graph;
    ObjectiveOptions plain;
    if (is_diffusion) {
      plain.diffusion = DiffusionObjective{};
    }
    ObjectiveOptions more = plain;
    more.input_perturbation = 0.25;
    const Tensor latents = constant(graph, 0.5, {DType::F32, {2, 4096}});
    const Draw drawn = draw(key(graph, 5), latents, more);
    EXPECT_EQ(evaluate(graph, drawn.noise).bytes,
              evaluate(graph, draw(key(graph, 5), latents, plain).noise).bytes);
    double squares = 0;
    const HostArray added = evaluate(graph, drawn.input_noise - drawn.noise);
    for (const float x : added.as<float>()) {
      squares += static_cast<double>(x) * x;
    }
    // Of 8192 numbers, whose mean square has a relative standard deviation of sqrt(2 / 8192).
    EXPECT_NEAR(squares / 8192, 0.0625, 0.0625 * 4 * 0.0157);
    const FlowBatch with =
        flow_batch(latents, drawn.noise, drawn.timestep, more, {}, drawn.input_noise);
    const FlowBatch other = flow_batch(latents, drawn.input_noise, drawn.timestep, plain);
    EXPECT_EQ(evaluate(graph, with.noisy).bytes, evaluate(graph, other.noisy).bytes);
    EXPECT_EQ(
        evaluate(graph, with.target).bytes,
        evaluate(graph, flow_batch(latents, drawn.noise, drawn.timestep, plain).target).bytes);
  }
}

TEST_F(Objective, DrawsTheShiftedDistribution) {
  Graph graph;
  const Tensor latents = constant(graph, 0.0, {DType::F32, {4096, 1}});
  const Draw drawn = draw(key(graph, 7), latents, {});

  const HostArray t = evaluate(graph, drawn.timestep);
  const HostArray noise = evaluate(graph, drawn.noise);

  // Half of all u are below 0.5, that is t below 750; 4096 draws have a deviation of 0.8 %.
  const auto below =
      std::count_if(t.as<float>().begin(), t.as<float>().end(), [](float x) { return x < 750.0F; });
  EXPECT_NEAR(static_cast<double>(below) / 4096, 0.5, 0.04);
  double mean = 0;
  double square = 0;
  for (const float x : noise.as<float>()) {
    mean += x / 4096.0;
    square += x * x / 4096.0;
  }
  EXPECT_NEAR(mean, 0.0, 0.08);    // five deviations of 1/64
  EXPECT_NEAR(square, 1.0, 0.11);  // five deviations of sqrt(2)/64
}

TEST_F(Objective, StratifiesOneDrawPerPart) {
  Graph graph;
  const Tensor latents = constant(graph, 0.0, {DType::F32, {8, 1}});
  const Draw drawn = draw(key(graph, 1), latents, {.stratified = true});

  const HostArray t = evaluate(graph, drawn.timestep);

  std::set<int> parts;
  for (const float x : t.as<float>()) {
    const double u = x / (3000.0 - 2.0 * x);  // the inverse of t = 3000 u / (1 + 2 u)
    parts.insert(static_cast<int>(u * 8));
  }
  EXPECT_EQ(parts.size(), 8);
}

TEST_F(Objective, StratifiesANormalDensityByItsQuantiles) {
  Graph graph;
  const Tensor latents = constant(graph, 0.0, {DType::F32, {64, 1}});
  ObjectiveOptions options{.stratified = true};
  options.flow.shift = 1.0;
  options.flow.density = schedulers::Density::LOGIT_NORMAL;
  options.flow.logit_mean = 0.5;
  options.flow.logit_std = 2.0;

  const HostArray t = evaluate(graph, draw(key(graph, 1), latents, options).timestep);

  std::set<int> parts;
  for (const float x : t.as<float>()) {
    const double level = x / 1000.0;  // 1 - 1 / (1 + exp(-(mean + std z)))
    const double z = (std::log((1.0 - level) / level) - 0.5) / 2.0;
    parts.insert(static_cast<int>(64 * 0.5 * std::erfc(-z / std::sqrt(2.0))));
  }
  EXPECT_EQ(parts.size(), 64);
}

TEST_F(Objective, GivenFirstFramesStayCleanAndDoNotCount) {
  Graph graph;
  const Dims dims{2, 1, 3, 1, 1};
  const Tensor latents =
      constant_f32(graph, dims, std::vector<float>{2.0F, 3.0F, 4.0F, 2.0F, 3.0F, 4.0F});
  const Tensor noise = constant(graph, -1.0, {DType::F32, dims});
  const Tensor t = constant_f32(graph, {2}, std::vector<float>{750.0F, 750.0F});
  const Tensor given =
      compare(constant_f32(graph, {2}, std::vector<float>{1.0F, 0.0F}), Comparison::GT, 0.5);
  const FlowBatch flow = flow_batch(latents, noise, t, {}, given);

  const HostArray noisy = evaluate(graph, flow.noisy);
  const double sigma = schedulers::FlowMatch().sigma(750);
  EXPECT_EQ(noisy.as<float>()[0], 2.0F);
  for (size_t i = 1; i < 6; ++i) {
    EXPECT_NEAR(noisy.as<float>()[i], (1 - sigma) * (2.0 + static_cast<double>(i % 3)) - sigma,
                1e-6);
  }
  // Errors 1, 2 and 3: the mean of a sample with a given first frame is over the last two.
  const Tensor prediction =
      flow.target + constant_f32(graph, {1, 1, 3, 1, 1}, std::vector<float>{1, 2, 3});
  const HostArray losses = evaluate(graph, sample_losses(prediction, flow));
  EXPECT_NEAR(losses.as<float>()[0], (4 + 9) / 2.0, 1e-5);
  EXPECT_NEAR(losses.as<float>()[1], (1 + 4 + 9) / 3.0, 1e-5);
  const Tensor weight = constant_f32(graph, {2}, std::vector<float>{2, 0.5F});
  EXPECT_NEAR(evaluate(graph, flow_loss(prediction, flow, weight)).as<float>()[0],
              (2 * (4 + 9) / 2.0 + 0.5 * (1 + 4 + 9) / 3.0) / 2, 1e-5);
}

// kohya's apply_masked_loss: the loss of each latent times its mask, then the mean over all
// latents.
TEST_F(Objective, LossWeightsMultiplyTheLossAndTheGradientOfEachLatent) {
  Graph graph;
  const Dims dims{2, 2, 1, 1, 2};
  const auto values = [&](const Dims& of, std::vector<float> list) {
    return constant_f32(graph, of, std::move(list));
  };
  TrainBatch batch{.latents = values(dims, {1, 2, 3, 4, 5, 6, 7, 8})};
  batch.noise = constant(graph, 0.5, {DType::F32, dims});
  batch.timestep = values({2}, {250, 750});
  const Tensor prediction = values(dims, {0, 1, 0, 2, 3, 1, 0, 1});
  const FlowBatch plain = training_task(batch, Tensor(), {}).flow;
  // Of each sample and column; both channels have the same.
  batch.loss_weights = values({2, 1, 1, 1, 2}, {0, 1, 0.25F, 0});
  const FlowBatch masked = training_task(batch, Tensor(), {}).flow;
  const std::vector<float> weights{0, 1, 0, 1, 0.25F, 0, 0.25F, 0};

  const HostArray target = evaluate(graph, plain.target);
  const HostArray predicted = evaluate(graph, prediction);
  double sum = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    const double error = target.as<float>()[i] - predicted.as<float>()[i];
    sum += weights[i] * error * error;
  }
  // Sums of eight float products of at most 100.
  EXPECT_NEAR(evaluate(graph, flow_loss(prediction, masked, {})).as<float>()[0], sum / 8, 1e-5);

  const auto gradient = [&](const FlowBatch& flow) {
    return evaluate(graph, gradients(flow_loss(prediction, flow, {}), std::vector{prediction})[0]);
  };
  const HostArray of_all = gradient(plain);
  const HostArray of_masked = gradient(masked);
  for (size_t i = 0; i < weights.size(); ++i) {
    EXPECT_NE(of_all.as<float>()[i], 0);
    // Powers of two: exact, and exactly 0 outside of the mask.
    EXPECT_EQ(of_masked.as<float>()[i], weights[i] * of_all.as<float>()[i]) << i;
  }
}

TEST_F(Objective, GivesFirstFramesAsOftenAsAsked) {
  Graph graph;
  const ObjectiveOptions options{.first_frame = 0.25};
  const Draw drawn =
      draw(key(graph, 1), constant(graph, 0.0, {DType::F32, {400, 1, 2, 1, 1}}), options);
  const HostArray given = evaluate(graph, convert(drawn.given, DType::F32));
  const auto values = given.as<float>();
  // Five deviations of sqrt(400 / 4 * 3 / 4).
  EXPECT_NEAR(std::count(values.begin(), values.end(), 1.0F), 100, 45);
  EXPECT_FALSE(
      draw(key(graph, 1), constant(graph, 0.0, {DType::F32, {4, 1, 1, 1, 1}}), options).given)
      << "nothing would be left of one latent frame";
}

// Flux's levels are the integer timesteps 1 to 1000; with bounds, those within them.
TEST_F(Objective, DrawsNoiseLevelsOfFlux) {
  Graph graph;
  const Tensor latents = constant(graph, 0.0, {DType::F32, {20000, 1}});
  for (const auto& [low, high] : {std::pair{0.0, 1000.0}, {0.0, 40.0}, {900.0, 1000.0}}) {
    const ObjectiveOptions options{
        .flow = schedulers::kFluxFlow, .min_timestep = low, .max_timestep = high};
    const HostArray drawn = evaluate(graph, draw(key(graph, 7), latents, options).timestep);
    std::set<long> seen;
    for (const float t : drawn.as<float>()) {
      ASSERT_NEAR(t, std::round(t), 1e-3);
      ASSERT_GE(std::lround(t), std::max(low, 1.0));
      ASSERT_LE(t, high);
      seen.insert(std::lround(t));
    }
    // At least 20 draws expected for each: the probability to miss one is 1000 / e^20.
    EXPECT_GE(static_cast<double>(seen.size()), high - low);
  }
}

TEST_F(Objective, DrawsTimestepsOfOneSideOfABoundary) {
  Graph graph;
  const Tensor latents = constant(graph, 0.0, {DType::F32, {4096, 1}});
  const HostArray all = evaluate(graph, draw(key(graph, 7), latents, {}).timestep);
  double mean_of_high = 0;
  int64_t count = 0;
  for (const float t : all.as<float>()) {
    mean_of_high += t >= 875 ? t : 0;
    count += t >= 875 ? 1 : 0;
  }
  mean_of_high /= static_cast<double>(count);

  const HostArray high = evaluate(
      graph, draw(key(graph, 8), latents, {.min_timestep = 875, .max_timestep = 1000}).timestep);
  const HostArray low =
      evaluate(graph, draw(key(graph, 8), latents, {.max_timestep = 875}).timestep);

  double mean = 0;
  for (const float t : high.as<float>()) {
    ASSERT_GE(t, 875);
    ASSERT_LE(t, 1000);
    mean += t / 4096.0;
  }
  // The same distribution as without bounds for draws that fall into them: 4096 against about 1100,
  // whose deviation is below 125 / sqrt(12); five deviations.
  EXPECT_NEAR(mean, mean_of_high,
              5 * 36 * std::sqrt(1 / 4096.0 + 1.0 / static_cast<double>(count)));
  EXPECT_GT(count, 800);
  const auto [smallest, largest] =
      std::minmax_element(low.as<float>().begin(), low.as<float>().end());
  EXPECT_LE(*largest, 875);
  EXPECT_GT(*largest, 870);
  EXPECT_LT(*smallest, 5);
}

TEST_F(Objective, DrawsDifferentNumbersForDifferentKeys) {
  Graph graph;
  const Tensor latents = constant(graph, 0.0, {DType::F32, {4, 1}});
  const HostArray a = evaluate(graph, draw(key(graph, 1), latents, {}).noise);
  const HostArray again = evaluate(graph, draw(key(graph, 1), latents, {}).noise);
  const HostArray b = evaluate(graph, draw(key(graph, 2), latents, {}).noise);

  EXPECT_EQ(a.bytes, again.bytes);
  EXPECT_NE(a.bytes, b.bytes);
}

TEST_F(Objective, ReplacesDroppedCaptionsWhole) {
  Graph graph;
  const Tensor text = constant(graph, 1.0, {DType::F32, {400, 2, 3}});
  const Tensor empty = constant(graph, 5.0, {DType::F32, {2, 3}});

  const HostArray out = evaluate(graph, drop_captions(key(graph, 1), text, empty, 0.25));

  int dropped = 0;
  for (size_t sample = 0; sample < 400; ++sample) {
    const auto rows = out.as<float>().subspan(sample * 6, 6);
    ASSERT_TRUE(std::all_of(rows.begin(), rows.end(), [&](float x) { return x == rows[0]; }));
    dropped += rows[0] == 5.0F ? 1 : 0;
  }
  EXPECT_NEAR(dropped, 100, 45);  // five deviations of sqrt(400 / 4 * 3 / 4)
}

}  // namespace
}  // namespace kinema::training
