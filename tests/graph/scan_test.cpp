#include "kinema/graph/scan.h"

#include <gmock/gmock.h>

#include "graph/gradient_check.h"
#include "kinema/graph/body.h"
#include "kinema/graph/ops/attrs.h"
#include "kinema/graph/scan_some.h"

namespace kinema {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::ThrowsMessage;

constexpr int64_t kLayers = 3;

/// A small stack: x <- named(tanh(x w_i + c)) * 1.5 + x, y_i = sum x; returns the sum of
/// everything. x0 [2, 4], w [layers, 4, 4], c [4].
Tensor block(Tensor x, Tensor w, Tensor c) {
  const Tensor hidden = named(tanh(matmul(x, w) + c), "hidden");
  return hidden * 1.5 + x;
}

TensorFunction scanned(RematPolicy policy, bool reverse = false) {
  return [policy, reverse](std::span<const Tensor> in) {
    const Tensor c = in[2];
    const ScanResult result =
        scan({in[0]}, {in[1]}, {.length = kLayers, .reverse = reverse, .remat = policy},
             [&](std::span<const Tensor> carry, std::span<const Tensor> xs) -> ScanResult {
               const Tensor x = block(carry[0], xs[0], c);
               return {{x}, {sum(x, {1})}};
             });
    return concatenate({reshape(result.carry[0], {8}), reshape(result.ys[0], {kLayers * 2})},
                       Axis(0));
  };
}

TensorFunction unrolled(RematPolicy policy, bool reverse = false) {
  return [policy, reverse](std::span<const Tensor> in) {
    Tensor x = in[0];
    std::vector<Tensor> ys(kLayers);
    for (int64_t i = 0; i < kLayers; ++i) {
      const int64_t layer = reverse ? kLayers - 1 - i : i;
      const Tensor w = squeeze(slice(in[1], Axis(0), layer, 1), Axis(0));
      x = checkpoint({x, w}, policy, [&](std::span<const Tensor> args) {
        return std::vector<Tensor>{block(args[0], args[1], in[2])};
      })[0];
      ys[static_cast<size_t>(layer)] = sum(x, {1});
    }
    return concatenate({reshape(x, {8}), concatenate(ys, Axis(0))}, Axis(0));
  };
}

std::vector<HostArray> stack_inputs() {
  return {random_f64({2, 4}, -1, 1, 1), random_f64({kLayers, 4, 4}, -1, 1, 2),
          random_f64({4}, -1, 1, 3)};
}

std::vector<std::pair<std::string, RematPolicy>> policies() {
  return {{"NONE", remat_policy("none")},
          {"FULL", remat_policy("FULL")},
          {"MATMUL_WITHOUT_BATCH", remat_policy("matmul_without_batch")},
          {"OFFLOAD_MATMUL_WITHOUT_BATCH", remat_policy("OFFLOAD_MATMUL_WITHOUT_BATCH")},
          {"HIDDEN_STATE_WITH_OFFLOAD", remat_policy("HIDDEN_STATE_WITH_OFFLOAD")},
          {"CUSTOM saved", remat_policy("CUSTOM", {"hidden"})},
          {"CUSTOM offloaded", remat_policy("CUSTOM", {}, {"hidden"})}};
}

TEST(ScanGradient, MatchesFiniteDifferencesUnderEveryPolicy) {
  std::vector<GradientCase> cases;
  for (const auto& [name, policy] : policies()) {
    cases.push_back({"scan " + name, scanned(policy), stack_inputs()});
    cases.push_back({"checkpoint " + name, unrolled(policy), stack_inputs()});
  }
  cases.push_back({"reverse scan", scanned({}, true), stack_inputs()});
  expect_gradients_match(cases);
}

TEST(ScanGradient, CanBeDifferentiatedAgain) {
  expect_gradients_match(
      {{"scan", gradient_of(scanned({})), stack_inputs()},
       {"scan FULL", gradient_of(scanned(remat_policy("FULL"))), stack_inputs()},
       {"checkpoint FULL", gradient_of(unrolled(remat_policy("FULL"))), stack_inputs()}});
}

TEST(Scan, EqualsTheUnrolledLoopBothWays) {
  for (const bool reverse : {false, true}) {
    SCOPED_TRACE(reverse);
    Graph graph;
    std::vector<Tensor> in;
    for (const HostArray& array : stack_inputs()) {
      in.push_back(graph.input(array.shape));
    }
    const auto results =
        evaluate(graph, std::vector<Tensor>{scanned({}, reverse)(in), unrolled({}, reverse)(in)},
                 stack_inputs());

    for (size_t i = 0; i < results[0].as<double>().size(); ++i) {
      // Four products of numbers below 10 in two orders: a few units in the last place.
      EXPECT_NEAR(results[0].as<double>()[i], results[1].as<double>()[i], 1e-13);
    }
  }
}

TEST(Scan, DoesSomeStepsOfAStack) {
  for (const bool reverse : {false, true}) {
    SCOPED_TRACE(reverse);
    Graph graph;
    std::vector<Tensor> in;
    for (const HostArray& array : stack_inputs()) {
      in.push_back(graph.input(array.shape));
    }
    const auto some = [&](Tensor x, int64_t first, int64_t length) {
      const ScanOptions options{.length = length, .reverse = reverse};
      return scan_some(
          {x}, {in[1]}, options, {.first = first, .of = kLayers},
          [&](std::span<const Tensor> carry, std::span<const Tensor> xs) -> ScanResult {
            const Tensor y = block(carry[0], xs[0], in[2]);
            return {{y}, {sum(y, {1})}};
          });
    };
    const ScanResult a = reverse ? some(in[0], 1, 2) : some(in[0], 0, 1);
    const ScanResult b = reverse ? some(a.carry[0], 0, 1) : some(a.carry[0], 1, 2);
    const std::vector<Tensor> ys =
        reverse ? std::vector{b.ys[0], a.ys[0]} : std::vector{a.ys[0], b.ys[0]};
    const Tensor parts = concatenate(
        {reshape(b.carry[0], {8}), reshape(concatenate(ys, Axis(0)), {kLayers * 2})}, Axis(0));
    const auto results =
        evaluate(graph, std::vector<Tensor>{parts, unrolled({}, reverse)(in)}, stack_inputs());
    for (size_t i = 0; i < results[0].as<double>().size(); ++i) {
      EXPECT_NEAR(results[0].as<double>()[i], results[1].as<double>()[i], 1e-13);
    }
    EXPECT_THAT([&] { some(in[0], 2, 2); }, ThrowsMessage<Error>(HasSubstr("2 to 4")));
  }
}

TEST(Scan, DifferentiatesSomeStepsOfAStack) {
  for (const char* remat : {"NONE", "FULL"}) {
    for (const bool reverse : {false, true}) {
      SCOPED_TRACE(remat);
      const auto of_parts = [&](std::span<const Tensor> in) {
        Tensor x = in[0];
        std::vector<Tensor> ys;
        for (const auto& [first, length] : {std::pair<int64_t, int64_t>{0, 1}, {1, 2}}) {
          const ScanResult part = scan_some(
              {x}, {in[1]}, {.length = length, .reverse = reverse, .remat = remat_policy(remat)},
              {.first = first, .of = kLayers},
              [&](std::span<const Tensor> carry, std::span<const Tensor> xs) -> ScanResult {
                const Tensor y = block(carry[0], xs[0], in[2]);
                return {{y}, {sum(y, {1})}};
              });
          x = part.carry[0];
          ys.push_back(part.ys[0]);
        }
        return concatenate({reshape(x, {8}), reshape(concatenate(ys, Axis(0)), {kLayers * 2})},
                           Axis(0));
      };
      expect_gradient_matches(of_parts, stack_inputs());
    }
  }
}

TEST(Scan, NestsAndSumsGradientsOfCaptures) {
  const auto nested = [](std::span<const Tensor> in) {
    const ScanResult outer =
        scan({in[0]}, {}, {.length = 2, .remat = remat_policy("FULL")},
             [&](std::span<const Tensor> carry, std::span<const Tensor>) -> ScanResult {
               const ScanResult inner =
                   scan({carry[0]}, {in[1]}, {.length = kLayers},
                        [&](std::span<const Tensor> x, std::span<const Tensor> w) -> ScanResult {
                          return {{block(x[0], w[0], in[2])}, {}};
                        });
               return {inner.carry, {}};
             });
    return outer.carry[0];
  };
  expect_gradient_matches(nested, stack_inputs());
}

TEST(Scan, WritesAYInThePlaceOfAnX) {
  const std::vector<HostArray> arrays{random_f64({kLayers, 4}, -1, 1, 2),
                                      random_f64({kLayers, 4}, -1, 1, 3)};
  Graph graph;
  const Tensor a = graph.input(arrays[0].shape);
  const Tensor b = graph.input(arrays[1].shape);
  const auto moved = [&](std::map<size_t, size_t> in_place) {
    return scan({}, {a, b}, {.length = kLayers, .in_place = std::move(in_place)},
                [](std::span<const Tensor>, std::span<const Tensor> xs) -> ScanResult {
                  return {.carry = {}, .ys = {xs[1] * 2.0, xs[0] * 0.5 + xs[1]}};
                })
        .ys;
  };
  std::vector<Tensor> outputs = moved({});
  for (const Tensor y : moved({{1, 0}, {0, 1}})) {
    outputs.push_back(y);
  }
  const auto results = evaluate(graph, outputs, arrays);
  EXPECT_EQ(results[2].bytes, results[0].bytes);
  EXPECT_EQ(results[3].bytes, results[1].bytes);
  EXPECT_THAT(
      [&] {
        moved({{2, 0}});
      },
      ThrowsMessage<Error>(HasSubstr("does not fit in the place")));
}

int64_t scan_node_results(RematPolicy policy) {
  Graph graph;
  std::vector<Tensor> in;
  for (const HostArray& array : stack_inputs()) {
    in.push_back(graph.input(array.shape));
  }
  const Tensor y = scanned(std::move(policy))(in);
  gradients(weighted_sum(y), std::vector<Tensor>{in[0], in[1], in[2]});
  for (const Node& node : graph.nodes()) {
    if (node.op == &kScan) {
      return static_cast<int64_t>(node.results.size());
    }
  }
  return 0;
}

// The loop itself has two results: the last x and the ys.
TEST(Remat, KeepsWhatThePolicySaysAndTheBlocksInputs) {
  EXPECT_EQ(scan_node_results(remat_policy("FULL")), 2 + 1);                  // x
  EXPECT_EQ(scan_node_results(remat_policy("MATMUL_WITHOUT_BATCH")), 2 + 2);  // x, x w
  EXPECT_EQ(scan_node_results(remat_policy("CUSTOM", {"hidden"})), 2 + 2);    // x, hidden
  EXPECT_EQ(scan_node_results(remat_policy("CUSTOM", {"something else"})), 2 + 1);
  EXPECT_EQ(scan_node_results(remat_policy("NONE")), 2 + 2);  // x, tanh
}

TEST(Remat, RecomputesBehindABarrier) {
  Graph graph;
  std::vector<Tensor> in;
  for (const HostArray& array : stack_inputs()) {
    in.push_back(graph.input(array.shape));
  }
  const Tensor loss = weighted_sum(unrolled(remat_policy("FULL"))(in));
  const auto grads = gradients(loss, in);

  const std::string text = emit(graph, grads);

  size_t barriers = 0;
  const std::string barrier = "\"stablehlo.optimization_barrier\"";
  for (size_t at = text.find(barrier); at != std::string::npos; at = text.find(barrier, at + 1)) {
    ++barriers;
  }
  EXPECT_EQ(barriers, static_cast<size_t>(kLayers));
}

TEST(Remat, RefusesAnUnknownPolicyAndListsTheKnown) {
  EXPECT_THAT([] { remat_policy("SOME"); },
              ThrowsMessage<Error>(AllOf(HasSubstr("`SOME`"), HasSubstr("HIDDEN_STATE"))));
}

TEST(Scan, ProgramSizeDoesNotGrowWithTheLength) {
  const auto text_size = [](int64_t length) {
    Graph graph;
    const Tensor x = graph.input({DType::F32, {2, 4}});
    const Tensor w = graph.input({DType::F32, {length, 4, 4}});
    const ScanResult result =
        scan({x}, {w}, {.length = length},
             [&](std::span<const Tensor> carry, std::span<const Tensor> xs) -> ScanResult {
               return {{tanh(matmul(carry[0], xs[0]))}, {}};
             });
    const auto grads = gradients(sum(result.carry[0]), std::vector<Tensor>{w});
    return emit(graph, grads).size();
  };
  EXPECT_EQ(text_size(11),
            text_size(99));  // 10 and 98 are the last steps: the same number of digits
}

/// x0 BF16 [2, 4] through layers whose F32 weights are used in BF16: the last x, and the gradients
/// of the weights.
struct ConvertedWeights {
  Graph graph;
  std::vector<Tensor> outputs;

  explicit ConvertedWeights(const MeshAxes& mesh = {}) {
    const Sharding split{{{}, {"fsdp"}, {}}};
    Tensor w = graph.input({DType::F32, {kLayers, 4, 4}}, "w", {{{}, {}, {}}});
    w = convert(w, DType::BF16);
    w = mesh.axes.empty() ? w : with_sharding(w, split);
    const Tensor x = graph.input({DType::BF16, {2, 4}}, "x", {{{}, {}}});
    const Tensor y =
        scan({x}, {w}, {.length = kLayers, .remat = remat_policy("FULL")},
             [](std::span<const Tensor> carry, std::span<const Tensor> xs) -> ScanResult {
               return {{tanh(matmul(carry[0], xs[0]))}, {}};
             })
            .carry[0];
    outputs = {y, gradients(sum(convert(y, DType::F32)), std::vector{w})[0]};
  }
};

TEST(Scan, ConvertsArgumentsSliceBySliceWhereAsked) {
  const ConvertedWeights net;
  const auto loops_hold_f32 = [&](bool in_loops) {
    const std::string text = emit(net.graph, net.outputs, {.convert_in_loops = in_loops});
    size_t loops = 0;
    for (size_t at = text.find("}) : (tensor<i32>"); at != std::string::npos;
         at = text.find("}) : (tensor<i32>", at + 1)) {
      const std::string state = text.substr(at, text.find("->", at) - at);
      loops += state.find("tensor<3x4x4xf32>") != std::string::npos ? 1 : 0;
    }
    return loops;
  };

  EXPECT_EQ(loops_hold_f32(false), 0);
  EXPECT_EQ(loops_hold_f32(true), 2);  // forward and backward
}

TEST(Scan, GivesTheSameBitsWhereverItConverts) {
  const HostArray w = convert(random_f64({kLayers, 4, 4}, -1, 1, 1), DType::F32);
  const HostArray x = convert(random_f64({2, 4}, -1, 1, 2), DType::BF16);
  for (const MeshAxes& mesh : {MeshAxes{}, MeshAxes{{{"fsdp", 2}}}}) {
    const ConvertedWeights net(mesh);
    const std::vector<HostArray> inputs{w, x};

    const std::vector<HostArray> before = HostProgram(net.graph, net.outputs, mesh)(inputs);
    const std::vector<HostArray> inside =
        HostProgram(net.graph, net.outputs, mesh, {.convert_in_loops = true})(inputs);

    for (size_t i = 0; i < before.size(); ++i) {
      EXPECT_EQ(before[i].bytes, inside[i].bytes) << "result " << i;
    }
  }
}

// XLA's CPU compiler would convert the whole stack to float16 before the loop.
TEST(Scan, SlicesArgumentsOfFloat8AsBitsWhereAsked) {
  Graph graph;
  const Tensor x = graph.input({DType::F32, {2, 4}}, "x");
  const Tensor w = graph.input({DType::F8E4M3FN, {kLayers, 4, 4}}, "w");
  const std::vector<Tensor> outputs{
      scan({x}, {w}, {.length = kLayers},
           [](std::span<const Tensor> carry, std::span<const Tensor> xs) -> ScanResult {
             return {{tanh(matmul(carry[0], convert(xs[0], DType::F32)))}, {}};
           })
          .carry[0],
      convert(w, DType::F32)};
  EXPECT_THAT(emit(graph, outputs), HasSubstr("(tensor<3x4x4xf8E4M3FN>, tensor<i32>"));
  const std::string text = emit(graph, outputs, {.float8_as_bits = true});
  EXPECT_THAT(text, AllOf(HasSubstr("(tensor<3x4x4xui8>, tensor<i32>"),
                          Not(HasSubstr("(tensor<3x4x4xf8E4M3FN>, tensor<i32>"))));
  EXPECT_THAT(emit(graph, outputs, {.donate = {{1, 0}}, .float8_as_bits = true}),
              Not(HasSubstr("ui8")));

  const std::vector<HostArray> inputs{
      convert(random_f64({2, 4}, -1, 1, 2), DType::F32),
      convert(random_f64({kLayers, 4, 4}, -1, 1, 1), DType::F8E4M3FN)};
  const auto plain = HostProgram(graph, outputs)(inputs);
  const auto bits = HostProgram(graph, outputs, {}, {.float8_as_bits = true})(inputs);
  for (size_t i = 0; i < plain.size(); ++i) {
    EXPECT_EQ(plain[i].bytes, bits[i].bytes) << "result " << i;
  }
}

TEST(Scan, NamesTheCarriedValueThatChangesShape) {
  Graph graph;
  const Tensor x = graph.input({DType::F32, {2, 4}});
  const auto grow = [&] {
    scan({x}, {}, {.length = 3}, [](std::span<const Tensor> carry, auto) -> ScanResult {
      return {{concatenate({carry[0], carry[0]}, Axis(0))}, {}};
    });
  };
  EXPECT_THAT(grow, ThrowsMessage<Error>(AllOf(HasSubstr("f32[2,4]"), HasSubstr("f32[4,4]"))));
}

TEST(Scan, RefusesAnXOfAnotherLength) {
  Graph graph;
  const Tensor x = graph.input({DType::F32, {2, 4}});
  const Tensor w = graph.input({DType::F32, {5, 4, 4}});
  const auto body = [](std::span<const Tensor> carry, auto) -> ScanResult {
    return {{carry[0]}, {}};
  };
  EXPECT_THAT([&] { scan({x}, {w}, {.length = 3}, body); },
              ThrowsMessage<Error>(AllOf(HasSubstr("f32[5,4,4]"), HasSubstr("the length, 3"))));
}

}  // namespace
}  // namespace kinema
