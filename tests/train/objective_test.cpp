#include "train/objective.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "pjrt/cpu_plugin.h"
#include "runtime/program.h"

namespace kinema::train {
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

  EXPECT_EQ(evaluate(graph, flow_loss(prediction, target, weight)).as<float>()[0],
            (2 * (1 + 4) + 0.5F * (1 + 1)) / 4);
  EXPECT_EQ(evaluate(graph, flow_loss(prediction, target, {})).as<float>()[0],
            (1 + 4 + 1 + 1) / 4.0F);
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
}  // namespace kinema::train
