// Optimizers with state of all parameters together, and Adafactor's own rates, against the
// implementations that their users know (tools/golden/global_optimizers.py); learning rates of
// groups.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <filesystem>
#include <functional>
#include <map>

#include "kinema/core/error.h"
#include "kinema/io/safetensors.h"
#include "kinema/optimizers/adafactor.h"
#include "kinema/optimizers/adamw.h"
#include "kinema/optimizers/lion.h"
#include "kinema/optimizers/muon.h"
#include "kinema/optimizers/prodigy.h"
#include "kinema/optimizers/rate_groups.h"
#include "kinema/optimizers/schedule.h"
#include "kinema/optimizers/schedule_free.h"
#include "kinema/runtime/program.h"
#include "kinema/training/state.h"
#include "pjrt/cpu_plugin.h"

namespace kinema::optimizers {
namespace {

constexpr double kRate = 1e-2;
constexpr double kDecay = 0.1;
constexpr int kUpdates = 20;
// About ten F32 roundings (6e-8 each) of numbers up to the largest.
constexpr double kRounding = 1e-6;

/// Values in the order of memory, from the formula of tools/golden/optimizers.py.
std::vector<double> values_of(int64_t size, int64_t seed) {
  std::vector<double> out;
  for (int64_t n = 0; n < size; ++n) {
    const auto whole = static_cast<double>((n * 7919 + seed * 104729) % 10007 - 5003);
    out.push_back(static_cast<float>(whole / 5003.0 * std::exp2(-static_cast<double>(n % 9))));
  }
  return out;
}

HostArray array_of(const Dims& dims, const std::vector<double>& values) {
  HostArray out(Shape{DType::F32, dims});
  for (size_t i = 0; i < values.size(); ++i) {
    out.as<float>()[i] = static_cast<float>(values[i]);
  }
  return out;
}

HostArray first_values(const Dims& dims) {
  return array_of(dims, values_of(Shape{DType::F32, dims}.elements(), 0));
}

HostArray gradient_of(const Dims& dims, int64_t step) {
  std::vector<double> out = values_of(Shape{DType::F32, dims}.elements(), 100);
  const std::vector<double> changing = values_of(std::ssize(out), step);
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = static_cast<float>(out[i]) + 0.25F * static_cast<float>(changing[i]);
  }
  return array_of(dims, out);
}

std::vector<nn::ParamSpec> specs_of_golden() {
  return {{.name = "matrix", .shape = {DType::F32, {6, 5}}},
          {.name = "tall", .shape = {DType::F32, {3, 8}}},
          {.name = "vector", .shape = {DType::F32, {7}}}};
}

struct Result {
  std::map<std::string, HostArray> p;  // by the parameter's name
  std::map<std::string, HostArray> moments;
  std::vector<double> estimates;
};

class GlobalOptimizers : public pjrt::CpuTest {
 protected:
  /// After updates with rates by their index.
  static Result train(const Optimizer& optimizer, const std::vector<nn::ParamSpec>& specs,
                      const std::function<double(int64_t)>& rate, int updates = kUpdates,
                      std::span<const RateFactors> rates = {}) {
    const training::StateParts<nn::ParamSpec> kept = training::state_parts(specs, false, optimizer);
    Graph graph;
    std::vector<HostArray> state;
    OptimizerState before;
    for (const nn::ParamSpec& spec : specs) {
      before.params.push_back(graph.input(spec.shape));
      state.push_back(first_values(spec.shape.dims));
    }
    const auto add = [&](const std::vector<nn::ParamSpec>& list, std::vector<Tensor>& tensors) {
      for (const nn::ParamSpec& spec : list) {
        tensors.push_back(graph.input(spec.shape));
        state.emplace_back(spec.shape);
      }
    };
    add(kept.mu, before.mu);
    add(kept.nu, before.nu);
    before.count = graph.input({DType::S32, {}});
    state.emplace_back(Shape{DType::S32, {}});
    std::vector<Tensor> gradients;
    for (const nn::ParamSpec& spec : specs) {
      gradients.push_back(graph.input(spec.shape));
    }
    const Tensor given_rate = graph.input({DType::F32, {}});
    const OptimizerState after =
        update(optimizer, before, specs, gradients, given_rate, given_rate, {}, {}, rates);
    std::vector<Tensor> outputs = after.params;
    outputs.insert(outputs.end(), after.mu.begin(), after.mu.end());
    outputs.insert(outputs.end(), after.nu.begin(), after.nu.end());
    outputs.push_back(after.count);
    const runtime::Program program = runtime::Program::compile(pjrt::cpu_client(), graph, outputs);
    Result out;
    for (int step = 1; step <= updates; ++step) {
      std::vector<HostArray> arguments = state;
      for (const nn::ParamSpec& spec : specs) {
        arguments.push_back(gradient_of(spec.shape.dims, step));
      }
      arguments.push_back(array_of({}, {rate(step - 1)}));
      state = program.run_on_host(arguments);
      if (const auto at = optimizer.estimate()) {
        out.estimates.push_back(state[specs.size()].as<float>()[static_cast<size_t>(*at)]);
      }
    }
    size_t i = 0;
    for (const nn::ParamSpec& spec : specs) {
      out.p[spec.name] = state[i++];
    }
    for (const nn::ParamSpec& spec : kept.mu) {
      out.moments["mu." + spec.name] = state[i++];
    }
    for (const nn::ParamSpec& spec : kept.nu) {
      out.moments["nu." + spec.name] = state[i++];
    }
    return out;
  }

  static HostArray golden(const std::string& name) {
    const io::SafetensorsFile file = io::SafetensorsFile::open(
        std::filesystem::path(KINEMA_SOURCE_DIR) / "tests/golden/global_optimizers.safetensors");
    return file.at(name).copy();
  }

  static double largest(const HostArray& array) {
    double most = 0;
    for (const float x : array.as<float>()) {
      most = std::max(most, std::abs(static_cast<double>(x)));
    }
    return most;
  }

  static void expect_equal(const HostArray& found, const std::string& name, double relative) {
    SCOPED_TRACE(name);
    const HostArray wanted = golden(name);
    ASSERT_EQ(found.shape.elements(), wanted.shape.elements());
    const double most = largest(wanted);
    for (size_t i = 0; i < wanted.as<float>().size(); ++i) {
      ASSERT_NEAR(found.as<float>()[i], wanted.as<float>()[i], relative * most) << i;
    }
  }

  /// Parameters, and moments by their kinds: {"mu", "exp_avg"}.
  static void expect_all(const Result& found, const std::string& run, double relative,
                         const std::vector<std::array<std::string, 3>>& kinds) {
    for (const nn::ParamSpec& spec : specs_of_golden()) {
      expect_equal(found.p.at(spec.name), run + "." + spec.name + ".p", relative);
      for (const auto& [part, suffix, theirs] : kinds) {
        expect_equal(found.moments.at(part + "." + spec.name + suffix),
                     run + "." + spec.name + "." + theirs, relative);
      }
    }
  }
};

double one_always(int64_t /*step*/) { return 1.0; }
double rate_always(int64_t /*step*/) { return kRate; }

const std::vector<std::array<std::string, 3>> kOfProdigy = {
    {"mu", "", "exp_avg"}, {"mu", ".sum", "s"}, {"mu", ".initial", "p0"}, {"nu", "", "exp_avg_sq"}};

// The estimate multiplies every later number. Its own roundings are those of 61 products in F32,
// and of distances p0 - p of at least 0.1 (6e-8 / 0.1), in each of 20 updates.
constexpr double kOfEstimates = 20 * (3e-7 + 6e-7);

TEST_F(GlobalOptimizers, ProdigyEqualsProdigyopt) {
  const Result found = train(*prodigy({.d0 = 0.1}), specs_of_golden(), one_always);
  const HostArray estimates = golden("prodigy.d");
  for (size_t i = 0; i < found.estimates.size(); ++i) {
    const double wanted = estimates.as<float>()[i];
    EXPECT_NEAR(found.estimates[i], wanted, kOfEstimates * wanted) << i;
  }
  EXPECT_GT(found.estimates.back(), 1) << "it grew";
  expect_all(found, "prodigy", kOfEstimates, kOfProdigy);
}

TEST_F(GlobalOptimizers, ProdigysSwitchesEqualProdigyopt) {
  const Result found = train(*prodigy({.weight_decay = kDecay,
                                       .d0 = 1e-3,
                                       .d_coef = 0.8,
                                       .growth_rate = 1.5,
                                       .bias_correction = true,
                                       .safeguard_warmup = true}),
                             specs_of_golden(), one_always);
  EXPECT_NEAR(found.estimates.back(), golden("prodigy_guarded.d").as<float>()[19], 1e-8);
  EXPECT_GT(found.estimates.back(), 1.1e-3);
  expect_all(found, "prodigy_guarded", kOfEstimates, kOfProdigy);
}

TEST_F(GlobalOptimizers, ProdigyChangesNothingAtARateOfZero) {
  const auto optimizer = prodigy({.weight_decay = kDecay});
  const Result after = train(
      *optimizer, specs_of_golden(), [](int64_t) { return 0.0; }, 2);
  EXPECT_EQ(after.p.at("matrix").bytes, first_values({6, 5}).bytes);
  EXPECT_EQ(after.estimates, (std::vector<double>{1e-6F, 1e-6F}));
  for (const char* name : {"mu.matrix", "mu.matrix.sum", "nu.matrix"}) {
    EXPECT_EQ(largest(after.moments.at(name)), 0) << name;
  }
}

TEST_F(GlobalOptimizers, ScheduleFreeEqualsSchedulefree) {
  const std::vector<std::array<std::string, 3>> kinds = {{"mu", ".z", "z"},
                                                         {"nu", "", "exp_avg_sq"}};
  const auto optimizer = schedule_free({.weight_decay = kDecay});
  expect_all(train(*optimizer, specs_of_golden(), rate_always), "schedule_free", kRounding, kinds);
  const auto rates = [](int64_t k) {
    return kRate * static_cast<double>(std::min({k, int64_t{8}, 24 - k})) / 8.0;
  };
  // The reference keeps y and derives x by a division by b1 - 1, ten times its roundings.
  expect_all(train(*optimizer, specs_of_golden(), rates), "schedule_free_rates", 10 * kRounding,
             kinds);
}

// The reference's y after its updates is where the next gradient is computed.
TEST_F(GlobalOptimizers, ScheduleFreeComputesGradientsBetweenTheAverageAndZ) {
  const auto optimizer = schedule_free({});
  Graph graph;
  const Shape shape{DType::F32, {2}};
  const Tensor x = constant_f32(graph, {2}, std::vector<float>{1, 2});
  const Tensor z = constant_f32(graph, {2}, std::vector<float>{3, 0});
  const auto point = [&](double count) {
    const Tensor y = optimizer->gradient_point(
        x, {.mu = {z}, .nu = {}}, convert(constant(graph, count, {DType::F32, {}}), DType::S32));
    return runtime::evaluate(pjrt::cpu_client(), graph, std::vector{y})[0];
  };
  EXPECT_NEAR(point(4).as<float>()[0], 0.9 * 1 + 0.1 * 3, 1e-6);
  EXPECT_NEAR(point(4).as<float>()[1], 0.9 * 2, 1e-6);
  EXPECT_EQ(point(0).as<float>()[0], 1) << "z is x before the first update";
}

TEST_F(GlobalOptimizers, MuonEqualsThatOfTorch) {
  for (const auto& [run, options] :
       {std::pair("muon", MuonOptions{}),
        std::pair("muon_original", MuonOptions{.nesterov = false, .rate = MuonRate::ORIGINAL})}) {
    MuonOptions used = options;
    used.weight_decay = kDecay;
    used.adamw = {.weight_decay = kDecay};
    const Result found = train(*muon(used), specs_of_golden(), rate_always);
    expect_equal(found.p.at("vector"), std::string(run) + ".vector.p", kRounding);
    for (const char* matrix : {"matrix", "tall"}) {
      expect_equal(found.moments.at(std::string("mu.") + matrix),
                   std::string(run) + "." + matrix + ".momentum_buffer", kRounding);
      // A BF16 rounding (2^-9) that falls the other way in one of five iterations, whose slope is
      // up to 3.4; each of 20 updates moves numbers by at most 0.02.
      expect_equal(found.p.at(matrix), std::string(run) + "." + matrix + ".p",
                   kUpdates * 0.02 * 0x1p-9 * 3.4);
    }
    EXPECT_FALSE(found.moments.contains("nu.matrix"));
  }
}

TEST_F(GlobalOptimizers, AdafactorsOwnRatesEqualTransformers) {
  using enum Schedule::RelativeStep;
  const struct {
    const char* run;
    bool scale;
    Schedule::RelativeStep relative;
  } cases[] = {{"scaled", true, NONE},
               {"relative", true, PLAIN},
               {"warmup", true, WARMUP},
               {"relative_only", false, PLAIN}};
  for (const auto& each : cases) {
    const Schedule schedule{.learning_rate = kRate,
                            .steps = kUpdates,
                            .warmup_fraction = 0,
                            .relative_step = each.relative};
    const Result found = train(*adafactor({.scale_parameter = each.scale, .weight_decay = kDecay}),
                               specs_of_golden(), [&](int64_t step) { return schedule(step); });
    for (const char* name : {"matrix", "tall", "vector"}) {
      expect_equal(found.p.at(name), fmt::format("adafactor_{}.{}.p", each.run, name), kRounding);
    }
  }
}

TEST_F(GlobalOptimizers, LayersWithRatesOfTheirOwnAreUpdatedAsIfAlone) {
  const std::vector<nn::ParamSpec> stack{
      {.name = "b.{}.w", .shape = {DType::F32, {3, 2, 4}}, .layers = 3}};
  const RateFactors factors{1.0, 0.0, 0.25};
  for (const auto& optimizer :
       {adamw(AdamWOptions{.weight_decay = kDecay}), adafactor({.weight_decay = kDecay}),
        lion({.weight_decay = kDecay}), schedule_free({}), muon({}), prodigy({})}) {
    const HostArray mixed =
        train(*optimizer, stack, rate_always, 2, std::vector<RateFactors>{factors}).p.at("b.{}.w");
    for (const int64_t layer : {0, 1, 2}) {
      if (layer == 2 && optimizer->estimate()) {
        continue;  // one rate for all parameters
      }
      const double factor = factors[static_cast<size_t>(layer)];
      const HostArray alone = train(
                                  *optimizer, stack, [&](int64_t) { return kRate * factor; }, 2)
                                  .p.at("b.{}.w");
      const double limit = optimizer->estimate() ? 1e-6 : kRounding;
      for (int64_t i = layer * 8; i < layer * 8 + 8; ++i) {
        const auto at = static_cast<size_t>(i);
        EXPECT_NEAR(mixed.as<float>()[at], alone.as<float>()[at], limit) << layer << " " << i;
        if (factor == 0.0) {
          EXPECT_EQ(mixed.as<float>()[at], first_values({3, 2, 4}).as<float>()[at]);
        }
      }
    }
  }
}

TEST_F(GlobalOptimizers, AUniformFactorIsTheRate) {
  const auto optimizer = adamw(AdamWOptions{.weight_decay = kDecay});
  const std::vector<RateFactors> rates{{0.5}, {1.0}, {}};
  const Result found = train(*optimizer, specs_of_golden(), rate_always, 3, rates);
  const Result half = train(
      *optimizer, specs_of_golden(), [](int64_t) { return kRate * 0.5; }, 3);
  const Result whole = train(*optimizer, specs_of_golden(), rate_always, 3);
  EXPECT_EQ(found.p.at("matrix").bytes, half.p.at("matrix").bytes);
  EXPECT_EQ(found.p.at("tall").bytes, whole.p.at("tall").bytes);
  EXPECT_EQ(found.p.at("vector").bytes, whole.p.at("vector").bytes);
}

TEST(RateGroups, AreThoseOfTheFirstPatternThatMatches) {
  const std::vector<nn::ParamSpec> specs{
      {.name = "blocks.{}.attn.weight", .shape = {DType::F32, {3, 2, 4}}, .layers = 3},
      {.name = "proj_out.weight", .shape = {DType::F32, {2, 4}}}};
  const std::vector<RateGroup> groups{{"blocks.1.*", 0.1}, {"blocks.*", 2.0}};
  EXPECT_THAT(rate_factors(specs, groups),
              testing::ElementsAre(RateFactors{2.0, 0.1, 2.0}, RateFactors{1.0}));
  EXPECT_TRUE(rate_factors(specs, {}).empty());
  EXPECT_THAT(
      [&] {
        rate_factors(specs, std::vector<RateGroup>{{"blocks.7.*", 0.1}});
      },
      testing::ThrowsMessage<Error>(
          testing::AllOf(testing::HasSubstr("`blocks.7.*` matches no trained parameter"),
                         testing::HasSubstr("blocks.0.attn.weight"))));
}

}  // namespace
}  // namespace kinema::optimizers
