// Optimizers against the implementations that their users know (tools/golden/optimizers.py).
#include "kinema/optimizers/optimizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "kinema/core/error.h"
#include "kinema/io/safetensors.h"
#include "kinema/optimizers/adafactor.h"
#include "kinema/optimizers/adamw.h"
#include "kinema/optimizers/block_quantization.h"
#include "kinema/optimizers/came.h"
#include "kinema/optimizers/lion.h"
#include "kinema/runtime/program.h"
#include "kinema/training/state.h"
#include "pjrt/cpu_plugin.h"

namespace kinema::optimizers {
namespace {

namespace fs = std::filesystem;

constexpr double kRate = 1e-2;
constexpr double kDecay = 0.1;
constexpr int kUpdates = 3;

/// The formula of tools/golden/optimizers.py.
HostArray numbers(const Dims& dims, int64_t seed) {
  HostArray out(Shape{DType::F32, dims});
  const auto values = out.as<float>();
  for (size_t i = 0; i < values.size(); ++i) {
    const auto n = static_cast<int64_t>(i);
    const auto whole = static_cast<double>((n * 7919 + seed * 104729) % 10007 - 5003);
    values[i] = static_cast<float>(whole / 5003.0 * std::exp2(-static_cast<double>(n % 9)));
  }
  return out;
}

/// Parameter and moments of one tensor after updates by a compiled step.
struct Trained {
  HostArray p;
  std::vector<HostArray> mu;
  std::vector<HostArray> nu;
};

class Optimizers : public pjrt::CpuTest {
 protected:
  /// For `layers` equal tensors in a stack, or for one.
  Trained train(const Optimizer& optimizer, const Dims& dims, int64_t layers = 0,
                int updates = kUpdates) {
    nn::ParamSpec spec{.name = "w", .shape = {DType::F32, dims}, .layers = layers};
    if (layers > 0) {
      spec.shape.dims.insert(spec.shape.dims.begin(), layers);
    }
    const std::vector<nn::ParamSpec> specs{spec};
    const Moments<nn::ParamSpec> kept = optimizer.moments(spec);
    Graph graph;
    std::vector<HostArray> state{stacked(numbers(dims, 0), spec.shape)};
    OptimizerState before{.params = {graph.input(spec.shape)}};
    for (const auto& [list, tensors] :
         {std::pair(&kept.mu, &before.mu), std::pair(&kept.nu, &before.nu)}) {
      for (const nn::ParamSpec& each : *list) {
        tensors->push_back(graph.input(each.shape));
        state.emplace_back(each.shape);
      }
    }
    before.count = graph.input({DType::S32, {}});
    state.emplace_back(Shape{DType::S32, {}});
    const std::vector<Tensor> g{graph.input(spec.shape)};
    const Tensor rate = constant(graph, kRate, {DType::F32, {}});
    const OptimizerState after = update(optimizer, before, specs, g, rate, rate, {});
    std::vector<Tensor> outputs{after.params[0]};
    outputs.insert(outputs.end(), after.mu.begin(), after.mu.end());
    outputs.insert(outputs.end(), after.nu.begin(), after.nu.end());
    outputs.push_back(after.count);
    const runtime::Program program = runtime::Program::compile(pjrt::cpu_client(), graph, outputs);
    for (int step = 1; step <= updates; ++step) {
      std::vector<HostArray> arguments = state;
      arguments.push_back(stacked(numbers(dims, step), spec.shape));
      state = program.run_on_host(arguments);
    }
    EXPECT_EQ(state.back().as<int32_t>()[0], updates);
    Trained out{.p = state[0]};
    const auto mu_end = state.begin() + 1 + static_cast<ptrdiff_t>(kept.mu.size());
    out.mu.assign(state.begin() + 1, mu_end);
    out.nu.assign(mu_end, state.end() - 1);
    return out;
  }

  static HostArray golden(const std::string& name) {
    const io::SafetensorsFile file = io::SafetensorsFile::open(
        fs::path(KINEMA_SOURCE_DIR) / "tests/golden/optimizers.safetensors");
    return file.at(name).copy();
  }

  static void expect_near(const HostArray& found, const HostArray& wanted, double relative) {
    ASSERT_EQ(found.shape.elements(), wanted.shape.elements());
    double most = 0;
    for (const float x : wanted.as<float>()) {
      most = std::max(most, std::abs(static_cast<double>(x)));
    }
    for (size_t i = 0; i < wanted.as<float>().size(); ++i) {
      ASSERT_NEAR(found.as<float>()[i], wanted.as<float>()[i], relative * most) << i;
    }
  }

 private:
  /// The same for every layer.
  static HostArray stacked(const HostArray& one, const Shape& whole) {
    HostArray out(whole);
    for (size_t at = 0; at < out.bytes.size(); at += one.bytes.size()) {
      std::copy(one.bytes.begin(), one.bytes.end(), out.bytes.begin() + static_cast<ptrdiff_t>(at));
    }
    return out;
  }
};

// About ten F32 roundings (6e-8 each) of numbers up to the largest.
constexpr double kRounding = 1e-6;

TEST_F(Optimizers, AdafactorIsThatOfTransformers) {
  const struct {
    const char* name;
    Dims dims;
    double b1;
  } cases[] = {{"matrix", {6, 5}, 0.0},
               {"vector", {7}, 0.0},
               {"filter", {3, 2, 4, 5}, 0.0},
               {"momentum", {6, 5}, 0.9}};
  for (const auto& each : cases) {
    SCOPED_TRACE(each.name);
    const std::string prefix = std::string("adafactor.") + each.name + ".";
    const auto optimizer = adafactor({.b1 = each.b1, .weight_decay = kDecay});
    const Trained found = train(*optimizer, each.dims);
    expect_near(found.p, golden(prefix + "p"), kRounding);
    if (each.dims.size() == 1) {
      ASSERT_EQ(found.nu.size(), 1);
      expect_near(found.nu[0], golden(prefix + "nu"), kRounding);
    } else {
      ASSERT_EQ(found.nu.size(), 2);
      expect_near(found.nu[0], golden(prefix + "row"), kRounding);
      expect_near(found.nu[1], golden(prefix + "col"), kRounding);
    }
    ASSERT_EQ(found.mu.size(), each.b1 > 0 ? 1 : 0);
    if (each.b1 > 0) {
      expect_near(found.mu[0], golden(prefix + "mu"), kRounding);
    }
  }
}

TEST_F(Optimizers, AdafactorTreatsLayersOfAStackAsTensorsOfTheirOwn) {
  const auto optimizer = adafactor({.weight_decay = kDecay});
  const HostArray wanted = golden("adafactor.matrix.p");
  const HostArray found = train(*optimizer, {6, 5}, /*layers=*/3).p;
  for (size_t i = 0; i < found.as<float>().size(); ++i) {
    EXPECT_NEAR(found.as<float>()[i], wanted.as<float>()[i % 30], kRounding) << i;
  }
}

// Of lion-pytorch, bitsandbytes and came-pytorch.
constexpr int kMoreUpdates = 20;

TEST_F(Optimizers, LionEqualsLionPytorch) {
  const Trained found = train(*lion({.weight_decay = kDecay}), {6, 5}, 0, kMoreUpdates);
  expect_near(found.p, golden("lion.p"), kRounding);
  ASSERT_EQ(found.mu.size(), 1);
  expect_near(found.mu[0], golden("lion.exp_avg"), kRounding);
  EXPECT_EQ(found.nu.size(), 0);
}

TEST_F(Optimizers, Lion8bitEqualsBitsandbytes) {
  const Trained found = train(*lion_8bit({.weight_decay = kDecay}), {8, 512}, 0, kMoreUpdates);
  ASSERT_EQ(found.mu.size(), 2);
  expect_near(found.mu[1], golden("lion8bit.absmax1"), kRounding);
  // Values halfway between two numbers of the map, see AdamW8bit below, move by one code; the sign
  // of an update then differs where it was next to 0.
  const HostArray codes = golden("lion8bit.state1");
  const HostArray wanted = golden("lion8bit.p");
  int others = 0;
  int signs = 0;
  for (size_t i = 0; i < codes.bytes.size(); ++i) {
    const int apart =
        std::abs(static_cast<int>(found.mu[0].bytes[i]) - static_cast<int>(codes.bytes[i]));
    EXPECT_LE(apart, 1) << i;
    others += apart;
    signs += std::abs(found.p.as<float>()[i] - wanted.as<float>()[i]) > kRounding ? 1 : 0;
  }
  EXPECT_LE(others, kMoreUpdates);
  EXPECT_LE(signs, 2);
}

TEST_F(Optimizers, CameEqualsCamePytorch) {
  for (const auto& [name, dims] : {std::pair("matrix", Dims{6, 5}), std::pair("vector", Dims{7}),
                                   std::pair("filter", Dims{3, 2, 4, 5})}) {
    SCOPED_TRACE(name);
    const std::string prefix = std::string("came.") + name + ".";
    const Trained found = train(*came({.weight_decay = kDecay}), dims, 0, kMoreUpdates);
    // The confidence divides by roots of small distances, which multiplies roundings.
    expect_near(found.p, golden(prefix + "p"), 10 * kRounding);
    ASSERT_EQ(found.mu.size(), 1);
    expect_near(found.mu[0], golden(prefix + "exp_avg"), kRounding);
    if (dims.size() == 1) {
      ASSERT_EQ(found.nu.size(), 1);
      expect_near(found.nu[0], golden(prefix + "exp_avg_sq"), kRounding);
      continue;
    }
    ASSERT_EQ(found.nu.size(), 4);
    expect_near(found.nu[0], golden(prefix + "exp_avg_sq_row"), kRounding);
    expect_near(found.nu[1], golden(prefix + "exp_avg_sq_col"), kRounding);
    expect_near(found.nu[2], golden(prefix + "exp_avg_res_row"), 10 * kRounding);
    expect_near(found.nu[3], golden(prefix + "exp_avg_res_col"), 10 * kRounding);
  }
}

TEST_F(Optimizers, AdamW8bitIsThatOfBitsandbytes) {
  const auto optimizer = adamw_8bit({.weight_decay = kDecay});
  const Trained found = train(*optimizer, {8, 512});
  ASSERT_EQ(found.mu.size(), 2);
  ASSERT_EQ(found.nu.size(), 2);
  expect_near(found.mu[1], golden("adamw8bit.absmax1"), kRounding);
  expect_near(found.nu[1], golden("adamw8bit.absmax2"), kRounding);
  // A rounding (1e-7, where the map's numbers are 1e-2 apart) decides for values halfway between
  // two numbers: three times in 4096 values, next to none.
  constexpr int kHalfWay = 4;
  for (const auto& [codes, name] :
       {std::pair(&found.mu[0], "adamw8bit.state1"), std::pair(&found.nu[0], "adamw8bit.state2")}) {
    const HostArray wanted = golden(name);
    int others = 0;
    for (size_t i = 0; i < wanted.bytes.size(); ++i) {
      const int apart =
          std::abs(static_cast<int>(codes->bytes[i]) - static_cast<int>(wanted.bytes[i]));
      EXPECT_LE(apart, 1) << name << " at " << i;
      others += apart;
    }
    EXPECT_LE(others, kHalfWay) << name;
  }
  int others = 0;
  const HostArray wanted = golden("adamw8bit.p");
  for (size_t i = 0; i < wanted.as<float>().size(); ++i) {
    const double apart = std::abs(found.p.as<float>()[i] - wanted.as<float>()[i]);
    EXPECT_LT(apart, kRate) << i;
    others += apart > kRounding ? 1 : 0;
  }
  EXPECT_LE(others, kHalfWay);
}

TEST_F(Optimizers, AdamW8bitKeepsSmallTensorsInF32) {
  const auto optimizer = adamw_8bit({});
  const nn::ParamSpec small{.name = "bias", .shape = {DType::BF16, {4095}}};
  EXPECT_EQ(optimizer->moments(small).mu.size(), 1);
  EXPECT_EQ(optimizer->moments(small).mu[0].shape, (Shape{DType::F32, {4095}}));
  // The size of a layer counts, not of its stack.
  const nn::ParamSpec stack{.name = "b.{}.w", .shape = {DType::F32, {100, 64, 32}}, .layers = 100};
  EXPECT_EQ(optimizer->moments(stack).nu.size(), 1);
}

/// The map as its 256 numbers: codes 0 ... 255 in one block of magnitude 1.
HostArray map_of(Signed is_signed) {
  Graph graph;
  const Tensor codes = graph.input({DType::U8, {256}});
  const Tensor absmax = constant(graph, 1.0, {DType::F32, {1}});
  const Tensor values = dequantized({codes, absmax}, 256, is_signed);
  HostArray all(Shape{DType::U8, {256}});
  for (size_t i = 0; i < 256; ++i) {
    all.bytes[i] = static_cast<std::byte>(i);
  }
  return runtime::evaluate(pjrt::cpu_client(), graph, std::vector{values}, std::vector{all})[0];
}

TEST_F(Optimizers, BytesAreCodesOfTheDynamicMap) {
  for (const auto& [is_signed, name] :
       {std::pair(Signed::YES, "map.signed"), std::pair(Signed::NO, "map.unsigned")}) {
    const HostArray wanted = golden(name);
    const HostArray found = map_of(is_signed);
    for (size_t i = 0; i < 256; ++i) {
      const double x = wanted.as<float>()[i];
      // Four roundings here, and as many in the reference.
      EXPECT_NEAR(found.as<float>()[i], x, 5e-7 * std::abs(x)) << name << " " << i;
    }
  }
}

TEST_F(Optimizers, BytesAreTheNearestAndComeBackAsThemselves) {
  // Rows of 300 have a block of 256 and one of 44; 70 x 3 x 2 is one row of 420.
  for (const Dims& dims : {Dims{5, 300}, Dims{1, 512}, Dims{2, 256}, Dims{70, 3, 2}}) {
    for (const Signed is_signed : {Signed::YES, Signed::NO}) {
      const nn::ParamSpec spec{.name = "w", .shape = {DType::F32, dims}};
      const int64_t width = row_width(spec);
      Graph graph;
      const Tensor x = graph.input(spec.shape);
      const Blocks first = quantized(x, width, is_signed);
      EXPECT_EQ(first.absmax.shape(), block_specs(spec)[1].shape);
      const Tensor values = dequantized(first, width, is_signed);
      const Blocks again = quantized(values, width, is_signed);
      HostArray given = numbers(dims, 7);
      for (float& value : given.as<float>()) {
        value = is_signed == Signed::YES ? value : std::abs(value);
      }
      const std::vector<HostArray> out = runtime::evaluate(
          pjrt::cpu_client(), graph,
          std::vector{values, first.codes, again.codes, first.absmax, again.absmax},
          std::vector{given});
      const HostArray map = map_of(is_signed);
      const auto blocks = static_cast<size_t>(out[3].shape.dims.back());
      for (size_t i = 0; i < given.as<float>().size(); ++i) {
        const size_t row = i / static_cast<size_t>(width);
        const size_t column = i % static_cast<size_t>(width);
        const double most = out[3].as<float>()[row * blocks + column / 256];
        double nearest = 10;
        for (const float each : map.as<float>()) {
          nearest = std::min(nearest, std::abs(each * most - given.as<float>()[i]));
        }
        EXPECT_NEAR(std::abs(out[0].as<float>()[i] - given.as<float>()[i]), nearest, 1e-6 * most);
      }
      if (is_signed == Signed::NO) {  // its largest number occurs with every sign
        EXPECT_EQ(out[1].bytes, out[2].bytes);
        EXPECT_EQ(out[3].bytes, out[4].bytes);
      }
    }
  }
}

TEST_F(Optimizers, ABlockOfZerosStaysOne) {
  Graph graph;
  const Tensor x = graph.input({DType::F32, {1, 512}});
  const Blocks blocks = quantized(x, 512, Signed::NO);
  const Tensor back = dequantized(quantized(x, 512, Signed::YES), 512, Signed::YES);
  const HostArray zeros(Shape{DType::F32, {1, 512}});
  const std::vector<HostArray> out =
      runtime::evaluate(pjrt::cpu_client(), graph, std::vector{blocks.codes, blocks.absmax, back},
                        std::vector{zeros});
  EXPECT_EQ(out[0].bytes, HostArray(out[0].shape).bytes);
  EXPECT_EQ(out[1].bytes, HostArray(out[1].shape).bytes);
  EXPECT_EQ(out[2].bytes, zeros.bytes);
}

TEST_F(Optimizers, DetermineTheStatesBytes) {
  const std::vector<nn::ParamSpec> specs{{.name = "w", .shape = {DType::F32, {1024, 512}}}};
  const int64_t elements = 1024 * 512;
  const auto bytes = [&](const Optimizer& optimizer) {
    const int64_t counts = training::COUNTS * byte_size(DType::S32);
    return training::state_bytes(training::state_parts(specs, false, optimizer), {}) -
           4 * elements - counts;
  };
  EXPECT_EQ(bytes(*adamw(AdamWOptions{})), 8 * elements);
  EXPECT_EQ(bytes(*adamw_8bit({})), 2 * (elements + 4 * elements / 256));
  EXPECT_EQ(bytes(*adafactor({})), 4 * (1024 + 512));
  EXPECT_EQ(bytes(*adafactor({.b1 = 0.9})), 4 * (1024 + 512) + 4 * elements);
}

TEST_F(Optimizers, MomentsOfAnotherOptimizerAreRefused) {
  Graph graph;
  const std::vector<nn::ParamSpec> specs{{.name = "w", .shape = {DType::F32, {2, 2}}}};
  const Tensor x = graph.input(specs[0].shape);
  const Tensor one = constant(graph, 1.0, {DType::F32, {}});
  const OptimizerState state{{x}, {x}, {x}, graph.input({DType::S32, {}})};
  EXPECT_THAT([&] { update(*adafactor({}), state, specs, std::vector{x}, one, one, {}); },
              testing::ThrowsMessage<Error>(testing::HasSubstr("[optimizer]")));
}

}  // namespace
}  // namespace kinema::optimizers
