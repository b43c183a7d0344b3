// Optimizers over a mesh of CPU devices keep the same state as on one device.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "io/scratch.h"
#include "kinema/optimizers/optimizer.h"
#include "kinema/runtime/program.h"
#include "kinema/training/step.h"
#include "pjrt/cpu_plugin.h"
#include "runtime/cpu_mesh.h"

namespace kinema::optimizers {
namespace {

/// A matrix sharded along both axes, whose shards' rows are not multiples of a block; a stack of
/// two such layers; and a vector.
std::vector<nn::ParamSpec> specs() {
  return {{.name = "w", .shape = {DType::F32, {16, 1280}}, .axes = {"mlp", "embed"}},
          {.name = "b.{}.w",
           .shape = {DType::F32, {2, 640, 32}},
           .layers = 2,
           .axes = {"embed", "mlp"}},
          {.name = "v", .shape = {DType::F32, {64}}, .axes = {"mlp"}}};
}

HostArray numbers(const Shape& shape, int64_t seed) {
  HostArray out(shape);
  const auto values = out.as<float>();
  for (size_t i = 0; i < values.size(); ++i) {
    const auto n = static_cast<int64_t>(i);
    values[i] = static_cast<float>(static_cast<double>((n * 7919 + seed * 104729) % 10007 - 5003) *
                                   std::exp2(-(n % 9)) / 5003);
  }
  return out;
}

/// Parameters and moments after three updates on these devices.
std::vector<HostArray> trained(const Optimizer& optimizer, const runtime::Devices& on) {
  const mesh::Placement& place = on.placement();
  const training::StateParts<nn::ParamSpec> kept = training::state_parts(specs(), false, optimizer);
  Graph graph;
  const auto inputs = [&](std::span<const nn::ParamSpec> list) {
    std::vector<Tensor> out;
    for (const nn::ParamSpec& spec : list) {
      out.push_back(graph.input(spec.shape, "", spec.sharding(place)));
    }
    return out;
  };
  OptimizerState before{
      .params = inputs(kept.trained), .mu = inputs(kept.mu), .nu = inputs(kept.nu)};
  before.count = graph.input({DType::S32, {}});
  const std::vector<Tensor> gradients = inputs(kept.trained);
  const Tensor one = constant(graph, 1.0, {DType::F32, {}});
  const OptimizerState after = update(optimizer, before, specs(), gradients, one, one * 0.01, {});

  std::vector<Tensor> outputs;
  runtime::ProgramOptions how;
  std::vector<runtime::Array> state;
  const auto add = [&](std::span<const nn::ParamSpec> list, const std::vector<Tensor>& results) {
    for (size_t i = 0; i < list.size(); ++i) {
      how.emit.output_shardings.push_back(list[i].sharding(place));
      outputs.push_back(results[i]);
      const bool is_parameter = &results == &after.params;
      state.push_back(on.upload(is_parameter ? numbers(list[i].shape, 0) : HostArray(list[i].shape),
                                list[i].sharding(place)));
    }
  };
  add(kept.trained, after.params);
  add(kept.mu, after.mu);
  add(kept.nu, after.nu);
  how.emit.output_shardings.push_back(place.whole({}));
  outputs.push_back(after.count);
  state.push_back(on.upload(HostArray(Shape{DType::S32, {}})));
  split_over(on, how);
  const auto program = runtime::Program::compile(on.client(), graph, outputs, how);
  for (int step = 1; step <= 3; ++step) {
    std::vector<runtime::Array> uploaded;
    for (const nn::ParamSpec& spec : specs()) {
      uploaded.push_back(on.upload(numbers(spec.shape, step), spec.sharding(place)));
    }
    std::vector<const runtime::Array*> arguments;
    for (const auto* list : {&state, &uploaded}) {
      for (const runtime::Array& array : *list) {
        arguments.push_back(&array);
      }
    }
    state = program.run(on, arguments);
  }
  std::vector<HostArray> out;
  for (const runtime::Array& array : state) {
    out.push_back(array.to_host());
  }
  return out;
}

/// Relative to the largest value; `others` values may differ more.
void expect_near(const HostArray& found, const HostArray& wanted, double relative, int others) {
  double most = 0;
  for (const float x : wanted.as<float>()) {
    most = std::max(most, std::abs(static_cast<double>(x)));
  }
  int apart = 0;
  for (size_t i = 0; i < wanted.as<float>().size(); ++i) {
    apart += std::abs(found.as<float>()[i] - wanted.as<float>()[i]) > relative * most ? 1 : 0;
  }
  EXPECT_LE(apart, others);
}

class OptimizersOverAMesh : public pjrt::CpuTest {
 protected:
  static const pjrt::Client& client() {
    static const pjrt::Client client = pjrt::cpu_client(8);
    return client;
  }
  /// (data, fsdp, context, tensor)
  static std::vector<runtime::Devices> meshes() {
    return {runtime::devices_of(client(), runtime::mesh_sizes(1, 8, 1, 1)),
            runtime::devices_of(client(), runtime::mesh_sizes(1, 2, 1, 4)),
            runtime::devices_of(client(), runtime::mesh_sizes(8, 1, 1, 1))};
  }
};

TEST_F(OptimizersOverAMesh, BytesOfMomentsAreThoseOfOneDevice) {
  const auto optimizer = adamw_8bit({.weight_decay = 0.1});
  const std::vector<HostArray> expected = trained(*optimizer, client());
  for (const runtime::Devices& on : meshes()) {
    const std::vector<HostArray> found = trained(*optimizer, on);
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i + 1 < expected.size(); ++i) {
      ASSERT_EQ(found[i].shape, expected[i].shape);
      if (expected[i].shape.dtype == DType::U8) {
        // A maximum does not depend on the order of its values; rounding may differ for a value
        // halfway between two numbers.
        int others = 0;
        for (size_t j = 0; j < expected[i].bytes.size(); ++j) {
          others += found[i].bytes[j] == expected[i].bytes[j] ? 0 : 1;
        }
        EXPECT_LE(others, 4) << i;
      } else {
        expect_near(found[i], expected[i], 1e-6, 4);  // some F32 roundings
      }
    }
  }
}

TEST_F(OptimizersOverAMesh, FactoredMeansAreThoseOfOneDevice) {
  for (const auto& optimizer : {adafactor({.b1 = 0.9}), came({})}) {
    const std::vector<HostArray> expected = trained(*optimizer, client());
    for (const runtime::Devices& on : meshes()) {
      const std::vector<HostArray> found = trained(*optimizer, on);
      ASSERT_EQ(found.size(), expected.size());
      for (size_t i = 0; i + 1 < expected.size(); ++i) {
        // Means of up to 20480 squares in another order: 6e-8 times the square root of their
        // number.
        expect_near(found[i], expected[i], 1e-5, 0);
      }
    }
  }
}

// Means of 20480 numbers and more in another order, as above; d multiplies what follows.
TEST_F(OptimizersOverAMesh, StateOfAllParametersIsThatOfOneDevice) {
  for (const auto& optimizer : {prodigy({.d0 = 1e-3}), schedule_free({})}) {
    const std::vector<HostArray> expected = trained(*optimizer, client());
    for (const runtime::Devices& on : meshes()) {
      const std::vector<HostArray> found = trained(*optimizer, on);
      ASSERT_EQ(found.size(), expected.size());
      for (size_t i = 0; i + 1 < expected.size(); ++i) {
        expect_near(found[i], expected[i], 1e-5, 0);
      }
    }
  }
}

// Roundings to BF16 (2^-9) of sums in another order, in five iterations; updates are up to 0.01 0.2
// sqrt(1280) / sqrt(16) each.
TEST_F(OptimizersOverAMesh, MuonIsThatOfOneDevice) {
  const auto optimizer = muon({});
  const std::vector<HostArray> expected = trained(*optimizer, client());
  for (const runtime::Devices& on : meshes()) {
    const std::vector<HostArray> found = trained(*optimizer, on);
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i + 1 < expected.size(); ++i) {
      expect_near(found[i], expected[i], 3 * 0.02 * 0x1p-9 * 3.4, 0);
    }
  }
}

TEST_F(OptimizersOverAMesh, EachDeviceHoldsItsShardOfTheState) {
  const auto whole =
      training::state_bytes(training::state_parts(specs(), false, *adamw_8bit({})), {});
  const runtime::Devices on = runtime::devices_of(client(), runtime::mesh_sizes(1, 8, 1, 1));
  const auto shared =
      training::state_bytes(training::state_parts(specs(), false, *adamw_8bit({})), on.placement());
  // Parameters and codes are sharded; magnitudes (4 bytes per 256 elements) and the vector are not.
  EXPECT_LT(shared, whole / 8 + 3000);
}

}  // namespace
}  // namespace kinema::optimizers
