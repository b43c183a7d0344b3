// Steps that reuse earlier results, against a plain sampler on the host.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <numbers>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/graph/ops.h"
#include "kinema/sample/denoiser.h"
#include "kinema/sample/low_pass.h"
#include "sample/tiny_transformer.h"

namespace kinema::sample {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr int64_t kSteps = 12;
const wan::TransformerConfig kConfig = tiny(/*num_layers=*/2);

/// f(a[i], b[i]) for every element.
template <typename F>
HostArray each(const HostArray& a, const HostArray& b, F f) {
  HostArray out(a.shape);
  for (size_t i = 0; i < out.as<float>().size(); ++i) {
    out.as<float>()[i] = static_cast<float>(
        f(static_cast<double>(a.as<float>()[i]), static_cast<double>(b.as<float>()[i])));
  }
  return out;
}

/// The reference's rule by definition: the real Fourier transform of each plane, columns up to w /
/// 2, times one weight for low and one for other frequencies, and back.
HostArray weighed(const HostArray& x, double low, double high) {
  const int64_t h = x.shape.dims[3];
  const int64_t w = x.shape.dims[4];
  const int64_t half = w / 2 + 1;
  const int64_t rows = std::max<int64_t>(1, h / 4);
  const int64_t columns = std::max<int64_t>(1, half / 4);
  const auto turn = [](int64_t k, int64_t at, int64_t n) {
    return std::polar(1.0, 2 * std::numbers::pi * static_cast<double>(k * at) / double(n));
  };
  HostArray out(x.shape);
  for (size_t plane = 0; plane < x.as<float>().size(); plane += static_cast<size_t>(h * w)) {
    std::vector<std::complex<double>> spectrum(static_cast<size_t>(h * half));
    for (int64_t k = 0; k < h; ++k) {
      for (int64_t l = 0; l < half; ++l) {
        std::complex<double> sum = 0;
        for (int64_t i = 0; i < h * w; ++i) {
          sum += double(x.as<float>()[plane + size_t(i)]) * std::conj(turn(k, i / w, h)) *
                 std::conj(turn(l, i % w, w));
        }
        const bool is_low = (k < rows || k >= h - rows + 1) && l < columns;
        spectrum[static_cast<size_t>(k * half + l)] = sum * (is_low ? low : high);
      }
    }
    for (int64_t i = 0; i < h * w; ++i) {
      double sum = 0;
      for (int64_t k = 0; k < h; ++k) {
        for (int64_t l = 0; l < half; ++l) {
          // Columns between 0 and w / 2 count for themselves and their mirror image.
          const double count = l == 0 || 2 * l == w ? 1 : 2;
          sum += count * (spectrum[static_cast<size_t>(k * half + l)] * turn(k, i / w, h) *
                          turn(l, i % w, w))
                             .real();
        }
      }
      out.as<float>()[plane + size_t(i)] = static_cast<float>(sum / double(h * w));
    }
  }
  return out;
}

/// The transformer alone, one context at a time: the velocity and the sum that the blocks add.
class PlainModel {
 public:
  explicit PlainModel(const std::filesystem::path& folder)
      : specs_(wan::parameters(kConfig, {})), buffers_(weights::load(folder, specs_, client())) {}

  struct Made {
    HostArray velocity;
    HostArray block_sum;
  };
  Made operator()(const HostArray& x, const HostArray& text, float time) const {
    return run(x, time, text,
               [](wan::TransformerInputs& in, Tensor t) { in.encoder_hidden_states = t; });
  }
  HostArray without_blocks(const HostArray& x, const HostArray& block_sum, float time) const {
    return run(x, time, block_sum, [](wan::TransformerInputs& in, Tensor t) { in.block_sum = t; })
        .velocity;
  }

 private:
  template <typename Give>
  Made run(const HostArray& x, float time, const HostArray& other, const Give& give) const {
    Graph graph;
    std::vector<Tensor> params;
    std::vector<const pjrt::Buffer*> arguments;
    for (size_t i = 0; i < specs_.size(); ++i) {
      params.push_back(graph.input(specs_[i].shape, specs_[i].name));
      arguments.push_back(&buffers_[i]);
    }
    wan::TransformerInputs in{.hidden_states = graph.input(x.shape),
                              .timestep = graph.input({DType::F32, {1}})};
    give(in, graph.input(other.shape));
    const auto out = wan::transformer_outputs(params, kConfig, {}, in);
    const auto program =
        runtime::Program::compile(client(), graph, std::vector{out.velocity, out.block_sum},
                                  {.executable_cache = program_cache()});
    const std::vector<float> times{time};
    const pjrt::Buffer x_there = client().to_device(x);
    const pjrt::Buffer time_there = client().to_device(HostArray::f32({1}, times));
    const pjrt::Buffer other_there = client().to_device(other);
    arguments.insert(arguments.end(), {&x_there, &time_there, &other_there});
    auto results = program.run(arguments);
    return {results[0].to_host(), results[1].to_host()};
  }

  std::vector<nn::ParamSpec> specs_;
  std::vector<pjrt::Buffer> buffers_;
};

/// The solver on the host, step by step.
class PlainSolver {
 public:
  PlainSolver(const schedulers::Schedule& schedule, HostArray x)
      : schedule_(schedule), x_(std::move(x)), previous_(x_.shape), m1_(x_.shape), m2_(x_.shape) {}

  const HostArray& x() const { return x_; }
  void step(int64_t i, const HostArray& v) {
    const schedulers::StepCoefficients& k = schedule_.steps[static_cast<size_t>(i)];
    const auto add = [](const HostArray& a, double f, const HostArray& b) {
      return each(a, b, [f](double p, double q) { return p + f * q; });
    };
    const HostArray zero(x_.shape);
    const HostArray m0 = add(add(zero, k.data_x, x_), k.data_v, v);
    const HostArray of_m0 =
        add(add(add(zero, k.correct_x, x_), k.correct_previous, previous_), k.correct_m0, m0);
    const HostArray c = add(add(of_m0, k.correct_m1, m1_), k.correct_m2, m2_);
    x_ = add(add(add(add(zero, k.from_c, c), k.from_m0, m0), k.from_m1, m1_), k.from_v, v);
    previous_ = c;
    m2_ = m1_;
    m1_ = m0;
  }

 private:
  const schedulers::Schedule& schedule_;
  HostArray x_, previous_, m1_, m2_;
};

class DenoiseReuse : public TwoTransformers {
 protected:
  DenoiseReuse() : TwoTransformers(kConfig) {}

  static DenoiseBatch batch(uint64_t seed) {
    return {.latents = normal({1, 4, 2, 8, 16}, seed),
            .text = normal({1, 3, 6}, seed + 100),
            .negative_text = normal({1, 3, 6}, seed + 200)};
  }
  static DenoiseSettings settings(const ReuseSettings& reuse = {}, double guidance_scale = 3.0) {
    return {.schedule = schedulers::make_schedule({}, kSteps),
            .guidance_scale = guidance_scale,
            .guidance_scale_2 = guidance_scale,
            .reuse = reuse};
  }
  static ReuseSettings magcache(double threshold, int64_t longest = 2) {
    return {.magcache = MagCache{.ratios = std::vector<double>(2 * kSteps, 0.99),
                                 .threshold = threshold,
                                 .longest_skip = longest}};
  }

  HostArray run(Experts& experts, const DenoiseSettings& settings,
                std::vector<int64_t>* reused = nullptr) {
    const std::vector<DenoiseBatch> batches{batch(1)};
    return denoise(experts, programs_, batches, settings, [&](const DenoiseStep& step) {
      if (reused != nullptr && is_reuse(step.reuse)) {
        reused->push_back(step.index);
      }
    })[0];
  }
};

// The same sums in other programs and another order: a few float32 roundings of values near 1 in
// each of 12 steps, propagated through the others.
constexpr double kRounding = 1e-4;

TEST_F(DenoiseReuse, KeysMadeOnceGiveTheSameVideo) {
  for (const bool two_passes : {false, true}) {
    SCOPED_TRACE(two_passes);
    Experts experts = two_experts(0.9);
    DenoiseSettings plain = settings();
    plain.two_passes = two_passes;
    DenoiseSettings kept = plain;
    kept.reuse.keys = true;
    EXPECT_LT(largest_difference(run(experts, plain), run(experts, kept)), kRounding);
  }
  Experts unrolled = one_expert({.scan_layers = false});
  EXPECT_LT(largest_difference(run(unrolled, settings({}, 1.0)),
                               run(unrolled, settings({.keys = true}, 1.0))),
            kRounding);
}

TEST_F(DenoiseReuse, AThresholdThatNeverSkipsChangesNoBit) {
  Experts experts = one_expert();
  std::vector<int64_t> reused;
  const HostArray plain = run(experts, settings());
  EXPECT_EQ(run(experts, settings(magcache(0)), &reused).bytes, plain.bytes);
  EXPECT_EQ(run(experts, settings(magcache(1, 0)), &reused).bytes, plain.bytes);
  EXPECT_THAT(reused, ElementsAre());
}

TEST_F(DenoiseReuse, MagCacheIsItsRuleStepByStep) {
  Experts experts = one_expert();
  const DenoiseBatch given = batch(1);
  for (const double scale : {3.0, 1.0}) {
    SCOPED_TRACE(scale);
    const DenoiseSettings cached = settings(magcache(0.05), scale);
    const PlainModel model(folder_.path() / "transformer");
    PlainSolver solver(cached.schedule, given.latents);
    const auto skips = magcache_skips(*cached.reuse.magcache, kSteps, {}, scale > 1);
    HostArray kept[2];
    for (int64_t i = 0; i < kSteps; ++i) {
      const float t = cached.schedule.timesteps[static_cast<size_t>(i)];
      HostArray velocities[2];
      for (const int branch : {0, 1}) {
        if (skips[static_cast<size_t>(i)]) {
          velocities[branch] = model.without_blocks(solver.x(), kept[branch], t);
        } else {
          auto made = model(solver.x(), branch == 0 ? given.text : given.negative_text, t);
          velocities[branch] = made.velocity;
          kept[branch] = made.block_sum;
        }
      }
      solver.step(i, scale > 1 ? each(velocities[0], velocities[1],
                                      [&](double c, double u) { return u + scale * (c - u); })
                               : velocities[0]);
    }
    std::vector<int64_t> reused;
    const HostArray made = run(experts, cached, &reused);
    EXPECT_THAT(reused, ElementsAre(2, 3, 5, 6, 8, 9, 11));
    EXPECT_LT(largest_difference(made, solver.x()), kRounding);
    EXPECT_GT(largest_difference(made, run(experts, settings({}, scale))), kRounding);
  }
}

TEST_F(DenoiseReuse, MagCacheIsTheSameInTwoPassesAndWithKeptKeys) {
  Experts experts = two_experts(0.9);
  DenoiseSettings other = settings(magcache(0.05));
  const HostArray doubled = run(experts, other);
  other.two_passes = true;
  other.reuse.keys = true;
  EXPECT_LT(largest_difference(run(experts, other), doubled), kRounding);
}

TEST_F(DenoiseReuse, TheGuidanceCacheIsItsRuleStepByStep) {
  Experts experts = one_expert();
  const DenoiseBatch given = batch(1);
  const double scale = 3.0;
  const DenoiseSettings cached = settings({.guidance = GuidanceCache{}}, scale);
  const PlainModel model(folder_.path() / "transformer");
  PlainSolver solver(cached.schedule, given.latents);
  const auto plan = guidance_reuse({}, kSteps, {});
  HostArray old_prompted;
  HostArray old_plain;
  for (int64_t i = 0; i < kSteps; ++i) {
    const float t = cached.schedule.timesteps[static_cast<size_t>(i)];
    const GuidanceReuse& step = plan[static_cast<size_t>(i)];
    const HostArray prompted = model(solver.x(), given.text, t).velocity;
    HostArray plain;
    if (step.reuse) {
      const HostArray difference = each(old_plain, old_prompted, std::minus<>());
      plain = each(prompted, weighed(difference, step.low, step.high), std::plus<>());
    } else {
      plain = model(solver.x(), given.negative_text, t).velocity;
      old_plain = plain;
    }
    old_prompted = prompted;
    solver.step(i, each(prompted, plain, [&](double c, double u) { return u + scale * (c - u); }));
  }
  std::vector<int64_t> reused;
  const HostArray made = run(experts, cached, &reused);
  EXPECT_THAT(reused, ElementsAre(5, 6, 7, 8));
  EXPECT_LT(largest_difference(made, solver.x()), kRounding);
  EXPECT_GT(largest_difference(made, run(experts, settings({}, scale))), kRounding);
}

TEST_F(DenoiseReuse, SenCacheIsItsRuleStepByStep) {
  Experts experts = one_expert();
  const DenoiseBatch given = batch(1);
  const double scale = 3.0;
  // With many steps each is short enough to be skipped.
  DenoiseSettings cached = settings({.sencache = true}, scale);
  cached.schedule = schedulers::make_schedule({}, 60);
  DenoiseSettings whole = cached;
  whole.reuse = {};
  const PlainModel model(folder_.path() / "transformer");
  PlainSolver solver(cached.schedule, given.latents);
  SenCache rule(60, {});
  HostArray velocity;
  HostArray reference;
  std::vector<int64_t> expected;
  for (int64_t i = 0; i < 60; ++i) {
    const float t = cached.schedule.timesteps[static_cast<size_t>(i)];
    double square = 0;
    if (i > 0) {
      const HostArray moved = each(solver.x(), reference, std::minus<>());
      for (const float x : moved.as<float>()) {
        square += double(x) * x / double(moved.as<float>().size());
      }
    }
    if (rule.reuse(i, t / 1000.0, std::sqrt(square))) {
      expected.push_back(i);
    } else {
      reference = solver.x();
      velocity = each(model(solver.x(), given.text, t).velocity,
                      model(solver.x(), given.negative_text, t).velocity,
                      [&](double c, double u) { return u + scale * (c - u); });
    }
    solver.step(i, velocity);
  }
  std::vector<int64_t> reused;
  const HostArray made = run(experts, cached, &reused);
  EXPECT_EQ(reused, expected);
  EXPECT_FALSE(reused.empty());
  // 60 steps instead of 12.
  EXPECT_LT(largest_difference(made, solver.x()), 5 * kRounding);
  EXPECT_GT(largest_difference(made, run(experts, whole)), 5 * kRounding);
}

TEST_F(DenoiseReuse, RefusesCombinationsAndMissingGuidance) {
  Experts experts = one_expert();
  ReuseSettings both = magcache(0.1);
  both.guidance = GuidanceCache{};
  EXPECT_THAT([&] { run(experts, settings(both)); },
              ThrowsMessage<Error>(HasSubstr("cannot be combined")));
  EXPECT_THAT([&] { run(experts, settings({.guidance = GuidanceCache{}}, 1.0)); },
              ThrowsMessage<Error>(HasSubstr("use_cfg_cache")));
  EXPECT_THAT([&] { run(experts, settings({.sencache = true}, 1.0)); },
              ThrowsMessage<Error>(HasSubstr("use_sen_cache")));
}

// Sums of w or h products of values near 1.
TEST(LowPass, IsTheTransformsLowQuarter) {
  for (const Dims& dims :
       {Dims{1, 1, 2, 8, 16}, Dims{1, 2, 1, 9, 7}, Dims{1, 1, 1, 1, 2}, Dims{1, 1, 1, 30, 52}}) {
    const HostArray x = normal(dims, 3);
    Graph graph;
    const Tensor in = graph.input(x.shape);
    const auto program = runtime::Program::compile(
        client(), graph, std::vector{low_frequencies(in)}, {.executable_cache = program_cache()});
    const pjrt::Buffer there = client().to_device(x);
    const std::vector<const pjrt::Buffer*> given{&there};
    const HostArray low = program.run(given)[0].to_host();
    EXPECT_LT(largest_difference(low, weighed(x, 1, 0)), 1e-5) << to_string(dims);
  }
}

}  // namespace
}  // namespace kinema::sample
