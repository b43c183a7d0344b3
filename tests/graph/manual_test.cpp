// Manual regions and their communication, on several CPU devices.
#include "kinema/graph/manual.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <numeric>
#include <set>

#include "graph/gradient_check.h"
#include "kinema/core/error.h"
#include "kinema/graph/ops/all_ops.h"
#include "kinema/graph/scan.h"

namespace kinema {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

using Parts = std::span<const Tensor>;

const MeshAxes kLine{{{"a", 4}}};
const MeshAxes kGrid{{{"a", 2}, {"b", 4}}};

HostArray counted(Dims dims) {
  HostArray out(Shape{DType::F32, std::move(dims)});
  std::iota(out.as<float>().begin(), out.as<float>().end(), 0.0F);
  return out;
}

std::vector<float> floats(const HostArray& x) {
  return {x.as<float>().begin(), x.as<float>().end()};
}

/// Runs `body` on the shards of 0, 1, 2, ... over all axes of the mesh; returns the results
/// concatenated.
std::vector<float> on_parts(const MeshAxes& mesh, int64_t size,
                            const std::function<Tensor(Tensor)>& body) {
  Graph graph;
  const Shape shape{DType::F32, {size}};
  const Tensor x = graph.input(shape, "", replicated(shape));
  std::vector<std::string> all;
  for (const auto& [axis, count] : mesh.axes) {
    all.push_back(axis);
  }
  const Sharding split{{all}};
  const std::vector<Tensor> y = manual({x}, {mesh, {split}, {split}}, [&](Parts part) {
    return std::vector<Tensor>{body(part[0])};
  });
  const std::vector<HostArray> inputs{counted({size})};
  return floats(evaluate(graph, y, inputs, mesh)[0]);
}

class Manual : public pjrt::CpuTest {};

TEST_F(Manual, BodySeesOneDevicesPart) {
  const auto y = on_parts(kLine, 8, [](Tensor part) {
    EXPECT_EQ(part.shape(), (Shape{DType::F32, {2}}));
    return reverse(part, Axis(0));
  });
  EXPECT_THAT(y, ElementsAre(1, 0, 3, 2, 5, 4, 7, 6));
}

TEST_F(Manual, DevicesKnowTheirPosition) {
  const auto y = on_parts(kGrid, 8, [](Tensor part) {
    const Tensor a = position_in(part.graph(), device_groups(kGrid, {"a"}));
    const Tensor ba = position_in(part.graph(), device_groups(kGrid, {"b", "a"}));
    return part * 0.0 + convert(10 * convert(a, DType::F32) + convert(ba, DType::F32), DType::F32);
  });
  EXPECT_THAT(y, ElementsAre(0, 2, 4, 6, 11, 13, 15, 17));
}

TEST_F(Manual, ReductionsReachTheWholeGroupOnly) {
  EXPECT_THAT(
      on_parts(kGrid, 8, [](Tensor x) { return all_reduce_sum(x, device_groups(kGrid, {"b"})); }),
      ElementsAre(6, 6, 6, 6, 22, 22, 22, 22));
  EXPECT_THAT(
      on_parts(kGrid, 8, [](Tensor x) { return all_reduce_max(x, device_groups(kGrid, {"a"})); }),
      ElementsAre(4, 5, 6, 7, 4, 5, 6, 7));
}

TEST_F(Manual, GatherAndScatterMoveWholeParts) {
  EXPECT_THAT(on_parts(kGrid, 8,
                       [](Tensor x) {
                         const Tensor all = all_gather(x, device_groups(kGrid, {"b"}), Axis(0));
                         return sum(all * iota(x.graph(), all.shape(), Axis(0)), {}, false) +
                                0.0 * x;
                       }),
              ElementsAre(14, 14, 14, 14, 38, 38, 38, 38));
  EXPECT_THAT(on_parts(kLine, 16,
                       [](Tensor x) {
                         const Tensor part =
                             reduce_scatter(x, device_groups(kLine, {"a"}), Axis(0));
                         return broadcast_to(part, {4});
                       }),
              ElementsAre(24, 24, 24, 24, 28, 28, 28, 28, 32, 32, 32, 32, 36, 36, 36, 36));
}

TEST_F(Manual, AllToAllTransposesPartsAndDevices) {
  EXPECT_THAT(on_parts(kLine, 16,
                       [](Tensor x) {
                         const DeviceGroups all = device_groups(kLine, {"a"});
                         return reshape(all_to_all(reshape(x, {4, 1}), all, Axis(0), Axis(1)), {4});
                       }),
              ElementsAre(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
}

TEST_F(Manual, RingsMayBePartOfAnAxis) {
  const DeviceGroups neighbours = subgroups(device_groups(kLine, {"a"}), 2, 1);
  const DeviceGroups apart = subgroups(device_groups(kLine, {"a"}), 2, 2);
  EXPECT_THAT(on_parts(kLine, 4, [&](Tensor x) { return ring_shift(x, neighbours, 1); }),
              ElementsAre(1, 0, 3, 2));
  EXPECT_THAT(on_parts(kLine, 4, [&](Tensor x) { return ring_shift(x, apart, -1); }),
              ElementsAre(2, 3, 0, 1));
  EXPECT_THAT(
      on_parts(kLine, 4, [](Tensor x) { return ring_shift(x, device_groups(kLine, {"a"}), 1); }),
      ElementsAre(3, 0, 1, 2));
}

TEST_F(Manual, WorksInALoopAndWithALoopInside) {
  Graph graph;
  const Shape shape{DType::F32, {4}};
  const Tensor x = graph.input(shape, "", replicated(shape));
  const DeviceGroups ring = device_groups(kLine, {"a"});
  const auto region = [&](Tensor carry) {
    return manual({carry}, {kLine, {{{{"a"}}}}, {{{{"a"}}}}}, [&](Parts part) {
      return scan({part[0]}, {}, {.length = 3},
                  [&](Parts inner, Parts) -> ScanResult {
                    return {{ring_shift(inner[0], ring, 1) + 1.0}, {}};
                  })
          .carry;
    });
  };
  const std::vector<Tensor> y = scan({x}, {}, {.length = 2}, [&](Parts carry, Parts) -> ScanResult {
                                  return {region(carry[0]), {}};
                                }).carry;
  const std::vector<HostArray> inputs{counted({4})};

  EXPECT_THAT(floats(evaluate(graph, y, inputs, kLine)[0]), ElementsAre(8, 9, 6, 7));
}

GradientCase one(const char* name, Dims in, Sharding from, Sharding to,
                 std::function<Tensor(Tensor)> body) {
  return {name,
          [=](std::span<const Tensor> x) {
            return manual({x[0]}, {kGrid, {from}, {to}},
                          [&](Parts part) { return std::vector<Tensor>{body(part[0])}; })[0];
          },
          {random_f64(std::move(in), -1, 1, 7)}};
}

/// Different on every device, so that a gradient that reaches the wrong device shows.
Tensor by_device(Tensor x) {
  const Tensor position = position_in(x.graph(), device_groups(kGrid, {"a", "b"}));
  return sin(x) * (1.0 + convert(position, DType::F64));
}

std::vector<GradientCase> collective_cases() {
  const Sharding both{{{"a", "b"}}};
  const Sharding b{{{"b"}}};
  const Sharding copies{{{}}};
  const auto a = [] { return device_groups(kGrid, {"a"}); };
  const auto ab = [] { return device_groups(kGrid, {"a", "b"}); };
  const auto ba = [] { return device_groups(kGrid, {"b", "a"}); };
  return {
      one("split alike", {8}, both, both, [](Tensor x) { return by_device(x); }),
      one("sum", {8}, both, b, [=](Tensor x) { return all_reduce_sum(by_device(x), a()); }),
      one("sum, given whole", {8}, both, both,
          [=](Tensor x) { return exp(x) * all_reduce_sum(by_device(x), ab()); }),
      one("largest", {8}, both, copies,
          [=](Tensor x) { return all_reduce_max(by_device(x), ab()); }),
      one("gather", {8}, both, copies,
          [=](Tensor x) {
            return all_reduce_sum(by_device(all_gather(by_device(x), ab(), Axis(0))), ab());
          }),
      one("scatter", {4}, b, both,
          [=](Tensor x) { return reduce_scatter(by_device(broadcast_to(x, {2})), a(), Axis(0)); }),
      one("all to all", {8, 4}, {{{"b"}, {}}}, {{{}, {"b"}}},
          [=](Tensor x) {
            return all_reduce_sum(
                all_to_all(by_device(x), device_groups(kGrid, {"b"}), Axis(1), Axis(0)), a());
          }),
      one("gather along the axes in the other order", {8}, {{{"b", "a"}}}, copies,
          [=](Tensor x) {
            return all_reduce_sum(by_device(all_gather(by_device(x), ba(), Axis(0))), ba());
          }),
      one("scatter along the axes in the other order", {1}, copies, {{{"b", "a"}}},
          [=](Tensor x) { return reduce_scatter(by_device(broadcast_to(x, {8})), ba(), Axis(0)); }),
      one("all to all along the axes in the other order", {8, 8}, {{{"b", "a"}, {}}},
          {{{}, {"b", "a"}}},
          [=](Tensor x) { return all_to_all(by_device(x), ba(), Axis(1), Axis(0)); }),
      one("ring along the axes in the other order", {16}, {{{"b", "a"}}}, {{{"b", "a"}}},
          [=](Tensor x) { return ring_shift(by_device(x), ba(), 1) * by_device(x); }),
      one("ring", {16}, both, both,
          [=](Tensor x) { return ring_shift(by_device(x), ab(), 3) * by_device(x); }),
      one("part of a ring", {8}, both, both,
          [=](Tensor x) { return ring_shift(by_device(x), subgroups(ab(), 2, 2), 1); }),
  };
}

TEST_F(Manual, CollectivesHaveTheGradientsOfFiniteDifferences) {
  expect_gradients_match(collective_cases(), kGrid);
}

TEST_F(Manual, GradientsAddUpOverCopiesAndPassThroughLoops) {
  const auto outside = [](std::span<const Tensor> x) {
    // x[1] is captured from outside, x[2] replicated, x[0] sharded; two results, one of them
    // replicated; and a loop whose values the backward pass keeps.
    const std::vector<Tensor> y =
        manual({x[0], x[2]}, {kGrid, {{{{"b"}}}, {}}, {{{{"b"}}}, {{{}}}}}, [&](Parts part) {
          const ScanResult loop =
              scan({part[0]}, {}, {.length = 2}, [&](Parts carry, Parts) -> ScanResult {
                return {{tanh(ring_shift(carry[0], device_groups(kGrid, {"b"}), 1) + x[1])}, {}};
              });
          const Tensor total = all_reduce_sum(by_device(sin(sum(part[1])) * loop.carry[0]),
                                              device_groups(kGrid, {"a", "b"}));
          return std::vector<Tensor>{loop.carry[0] * sum(part[1]), total};
        });
    return concatenate({y[0], y[1] * 0.1}, Axis(0));
  };
  expect_gradients_match(
      {{"copies",
        outside,
        {random_f64({8}, -1, 1, 1), random_f64({2}, -1, 1, 2), random_f64({3}, -1, 1, 3)}}},
      kGrid);
}

TEST_F(Manual, GradientsOfGradientsMatchFiniteDifferences) {
  const GradientCase ring = one("ring", {8}, {{{"a", "b"}}}, {{{"a", "b"}}}, [](Tensor x) {
    return ring_shift(by_device(x), device_groups(kGrid, {"a", "b"}), 1) * by_device(x);
  });
  expect_gradients_match({{"second order", gradient_of(ring.function), ring.inputs}}, kGrid);
}

TEST(Collectives, AllHaveAGradientCase) {
  std::set<std::string> covered;
  for (const GradientCase& one : collective_cases()) {
    Graph graph;
    const std::vector<Tensor> x{graph.input(one.inputs[0].shape)};
    const std::vector<Tensor> y{one.function(x)};
    std::string text = emit(graph, y, {.mesh = kGrid});
    for (const char* op : {"all_reduce_sum", "all_reduce_max", "all_gather", "reduce_scatter",
                           "all_to_all", "ring_shift"}) {
      if (text.find(op) != std::string::npos) {
        covered.insert(op);
      }
    }
  }
  for (const Op* op : collective_ops()) {
    EXPECT_EQ(covered.contains(op->name), op->gradient.exists()) << op->name;
  }
}

TEST(DeviceGroups, CountAlongTheAxesInTheirOrder) {
  EXPECT_THAT(device_groups(kGrid, {"b"}).members,
              ElementsAre(ElementsAre(0, 1, 2, 3), ElementsAre(4, 5, 6, 7)));
  EXPECT_THAT(device_groups(kGrid, {"b", "a"}).members,
              ElementsAre(ElementsAre(0, 4, 1, 5, 2, 6, 3, 7)));
  EXPECT_THAT(subgroups(device_groups(kLine, {"a"}), 2, 2).members,
              ElementsAre(ElementsAre(0, 2), ElementsAre(1, 3)));
}

TEST(ManualErrors, SayWhatDoesNotFit) {
  Graph graph;
  const Tensor x = graph.input({DType::F32, {6}});
  const auto same = [](Parts part) { return std::vector<Tensor>{part[0]}; };
  EXPECT_THAT(
      [&] {
        manual({x}, {kLine, {{{{"a"}}}}, {{{{"a"}}}}}, same);
      },
      ThrowsMessage<Error>(HasSubstr("axis 0 of f32[6] cannot be split into 4 equal parts")));
  EXPECT_THAT(
      [&] {
        manual({x}, {kLine, {{{{"z"}}}}, {{{{"z"}}}}}, same);
      },
      ThrowsMessage<Error>(HasSubstr("`z` is not an axis of the mesh")));
  EXPECT_THAT(
      [&] { subgroups(device_groups(kLine, {"a"}), 3, 1); },
      ThrowsMessage<Error>(HasSubstr("groups of 4 devices cannot be cut into groups of 3")));
  const std::vector<Tensor> outside{all_reduce_sum(x, device_groups(kLine, {"a"}))};
  EXPECT_THAT([&] { emit(graph, outside, {.mesh = kLine}); },
              ThrowsMessage<Error>(HasSubstr("is outside a manual region")));
  const std::vector<Tensor> region = manual({x}, {kGrid, {{{{"a"}}}}, {{{{"a"}}}}}, same);
  EXPECT_THAT([&] { emit(graph, region, {.mesh = kLine}); },
              ThrowsMessage<Error>(HasSubstr("built for another mesh")));
}

TEST(WithGradient, RefusesWhatTheRuleCannotKnow) {
  Graph graph;
  const Tensor x = graph.input({DType::F32, {6}});
  const Tensor y = graph.input({DType::F32, {6}});
  EXPECT_THAT(
      [&] {
        with_gradient(
            {x}, [&](Parts in) { return std::vector<Tensor>{in[0] * y}; },
            [](Parts, Parts, Parts dys) { return std::vector<Tensor>{dys[0]}; });
      },
      ThrowsMessage<Error>(HasSubstr("not among its inputs")));
}

}  // namespace
}  // namespace kinema
