#include "kinema/planning/report.h"

#include <gmock/gmock.h>

#include "kinema/graph/autodiff.h"
#include "kinema/graph/ops.h"
#include "kinema/graph/scan.h"
#include "kinema/planning/minimum_memory.h"

namespace kinema::planning {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t kGiB = int64_t{1} << 30;

Report sample() {
  Report report;
  report.target = parse_target("v5p:2x2x1");
  report.what = "training step";
  report.mesh = {{"data", 1}, {"context", 4}};
  report.flops.wide = 4 * 459e12 * 3;  // three seconds at the peak
  report.compiled.memory = {.code = 0,
                            .arguments = 20 * kGiB,
                            .outputs = 20 * kGiB,
                            .aliased = 20 * kGiB,
                            .temporary = 22 * kGiB,
                            .host_temporary = 21 * kGiB};
  report.compiled.memory_limit = 95 * kGiB;
  report.compiled.traffic.hbm_bytes = 2765e9;  // one second
  report.compiled.traffic.collectives["all-gather"] = {
      .count = 40, .bytes = 1.6e12, .interconnect_bytes = 1.2e12};  // two seconds at 600 GB/s
  return report;
}

TEST(Report, AddsUpWhatARunTakesAndComparesItWithTheLimit) {
  Report report = sample();
  EXPECT_EQ(report.total(), 42 * kGiB);
  EXPECT_EQ(report.host_bytes(), 21 * kGiB);
  EXPECT_TRUE(report.fits());
  EXPECT_THAT(to_text(report),
              AllOf(HasSubstr("42.00 GiB of 95.00 GiB: fits, 53.00 GiB left"),
                    HasSubstr("host memory    21.00 GiB"), HasSubstr("data=1 context=4")));

  report.compiled.memory_limit = 40 * kGiB;
  EXPECT_FALSE(report.fits());
  EXPECT_THAT(to_text(report), HasSubstr("does not fit, 2.00 GiB too much"));
}

/// A step that the compiler refused.
Report refused() {
  Report report = sample();
  report.layout = "16 samples, tokens over context=4";
  report.refused = "[plan] v5p:2x2x1 does not fit: temporaries exceed";
  report.compiled = {};
  report.compiled.memory.arguments = 10 * kGiB;
  report.compiled.memory.temporary = 90 * kGiB;
  report.compiled.memory_limit = 95 * kGiB;
  report.largest = {{.shape = {DType::BF16, {40, 1024}}, .place = "blocks/input, 40 steps"}};
  return report;
}

TEST(Report, OfARefusedStepHasMeshBatchAndWhatIsKnownOfItsMemory) {
  Report report = refused();
  EXPECT_FALSE(report.fits());
  EXPECT_THAT(to_text(report),
              AllOf(HasSubstr("data=1 context=4"), HasSubstr("16 samples, tokens over context=4"),
                    HasSubstr("at least 100.00 GiB of 95.00 GiB: does not fit"),
                    HasSubstr("largest        blocks/input, 40 steps bf16[40,1024]"),
                    Not(HasSubstr("compiled in"))));
  const io::Json json = to_json(report);
  EXPECT_FALSE(json.at("fits").as_bool());
  EXPECT_EQ(json.at("mesh").at("context").as_int(), 4);
  EXPECT_EQ(json.at("bytes").at("total").as_int(), 100 * kGiB);
  EXPECT_EQ(json.at("largest").items().front().at("place").as_string(), "blocks/input, 40 steps");
}

TEST(Report, SaysWhichOfTheTriedChangesFits) {
  Report report = refused();
  report.tried = {{.change = "remat_policy=FULL", .total = 96 * kGiB, .fits = false},
                  {.change = "global_batch_size=4", .total = 40 * kGiB, .fits = true}};
  EXPECT_THAT(to_text(report),
              AllOf(HasSubstr("tried          remat_policy=FULL: does not fit, 96.00 GiB"),
                    HasSubstr("global_batch_size=4: fits, 40.00 GiB")));
  EXPECT_EQ(verdict(report),
            "[plan] the training step does not fit v5p:2x2x1: 100.00 GiB of 95.00 GiB a device\n"
            "  global_batch_size=4 fits: 40.00 GiB");
  EXPECT_TRUE(to_json(report).at("tried").items().back().at("fits").as_bool());

  report.tried.pop_back();
  EXPECT_THAT(verdict(report), HasSubstr("\n  nor does it with remat_policy=FULL; fewer pixels"));
  report.tried.clear();
  report.untried = {"optimizer_memory=host", "optimizer=adamw8bit"};
  EXPECT_THAT(verdict(report), HasSubstr("not tried, but these take less: optimizer_memory=host; "
                                         "optimizer=adamw8bit"));
}

TEST(LargestValues, NameWhatALoopKeepsOfItsInput) {
  Graph graph;
  const Tensor w = graph.input({DType::F32, {3, 4, 4}}, "w");
  const Tensor x = graph.input({DType::F32, {1024, 4}}, "x");
  const Graph::Scope scope(graph, "blocks");
  const Tensor y =
      scan({x}, {w}, {.length = 3, .remat = remat_policy("FULL")},
           [](std::span<const Tensor> carry, std::span<const Tensor> xs) -> ScanResult {
             return {{tanh(matmul(carry[0], xs[0]))}, {}};
           })
          .carry[0];
  const std::vector<Tensor> outputs = gradients(sum(y), std::vector<Tensor>{w});
  const std::vector<LargeValue> largest = largest_values(graph, outputs, 1);
  EXPECT_EQ(largest.front().place, "blocks/input, 3 steps");
  EXPECT_EQ(largest.front().shape, (Shape{DType::F32, {3, 1024, 4}}));
}

TEST(MinimumMemory, IsArgumentsByTheMeshAndWhatLoopsKeep) {
  Graph graph;
  const Tensor w = graph.input({DType::F32, {3, 4, 4}}, "w", {{{}, {"fsdp"}, {}}});
  const Tensor x = graph.input({DType::F32, {1024, 4}}, "x", {{{}, {}}});
  const auto least = [&](const char* policy, bool host_memory) {
    const Tensor y =
        scan({x}, {w}, {.length = 3, .remat = remat_policy(policy)},
             [](std::span<const Tensor> carry, std::span<const Tensor> xs) -> ScanResult {
               return {{tanh(matmul(named(carry[0], "hidden_states"), xs[0]))}, {}};
             })
            .carry[0];
    const std::vector<Tensor> outputs = gradients(sum(y), std::vector<Tensor>{w});
    return minimum_memory(graph, outputs, MeshAxes{{{"fsdp", 2}}}, host_memory);
  };
  EXPECT_EQ(least("FULL", true).arguments, 4 * (3 * 4 * 4 / 2 + 1024 * 4));
  EXPECT_EQ(least("FULL", true).stacks, 4 * 3 * 1024 * 4 / 2) << "the blocks' inputs";
  EXPECT_EQ(least("NONE", true).stacks, 2 * 4 * 3 * 1024 * 4 / 2) << "and what tanh gave";
  EXPECT_EQ(least("HIDDEN_STATE_WITH_OFFLOAD", true).stacks, 0);
  EXPECT_EQ(least("HIDDEN_STATE_WITH_OFFLOAD", false).stacks, least("FULL", false).stacks);
}

TEST(MinimumMemory, IgnoresUnusedStacks) {
  Graph graph;
  const Tensor x = graph.input({DType::F32, {8}}, "x");
  const ScanResult made =
      scan({x}, {}, {.length = 5}, [](std::span<const Tensor> carry, std::span<const Tensor>) {
        return ScanResult{{carry[0] * 2.0}, {carry[0]}};
      });
  EXPECT_EQ(minimum_memory(graph, made.carry, {}, true).stacks, 0);
  EXPECT_EQ(minimum_memory(graph, std::vector{sum(made.ys[0])}, {}, true).stacks, 5 * 8 * 4);
}

TEST(Report, TakesTheLongestOfArithmeticMemoryAndLinks) {
  Report report = sample();
  EXPECT_DOUBLE_EQ(report.roofline().compute_seconds, 3);
  EXPECT_DOUBLE_EQ(report.roofline().hbm_seconds, 1);
  EXPECT_DOUBLE_EQ(report.roofline().interconnect_seconds, 2);
  EXPECT_DOUBLE_EQ(report.roofline().seconds(), 3);
  EXPECT_STREQ(report.roofline().bound(), "compute");

  report.flops = {.wide = 0, .int8 = 4 * 459e12 * 2, .float8 = 0};  // v5p: twice as fast
  EXPECT_DOUBLE_EQ(report.roofline().compute_seconds, 1);
  EXPECT_STREQ(report.roofline().bound(), "interconnect");
}

TEST(Report, GivesNoTimeWhereNoPeaksArePublished) {
  Report report = sample();
  report.target = parse_target("cpu:4");
  EXPECT_EQ(report.roofline().seconds(), 0);
  EXPECT_THAT(to_text(report), Not(HasSubstr("at least")));
}

TEST(Report, SaysTheSameAsJson) {
  const io::Json json = to_json(sample());
  EXPECT_EQ(json.at("bytes").at("temporaries").as_int(), 22 * kGiB);
  EXPECT_EQ(json.at("bytes").at("total").as_int(), 42 * kGiB);
  EXPECT_TRUE(json.at("fits").as_bool());
  EXPECT_EQ(json.at("mesh").at("context").as_int(), 4);
  EXPECT_EQ(json.at("collectives").at("all-gather").at("count").as_number(), 40);
  EXPECT_DOUBLE_EQ(json.at("roofline").at("seconds").as_number(), 3);
}

TEST(Report, NamesTheKernelOfEachAttention) {
  Report report = sample();
  EXPECT_THAT(to_text(report), Not(HasSubstr("attention")));
  const Shape shape{DType::BF16, {1, 9, 2, 64}};
  const kernels::AttentionCall forward{.q = shape, .k = shape, .result = DType::BF16};
  kernels::AttentionCall backward = forward;
  backward.backward = true;
  report.attention = {{backward, "blockwise"}, {forward, "cuDNN"}};
  EXPECT_THAT(to_text(report), HasSubstr("attention      backward [1,9,2,64] x 9 bf16: blockwise\n"
                                         "               forward [1,9,2,64] x 9 bf16: cuDNN\n"));
  EXPECT_EQ(to_json(report).at("attention").at("forward [1,9,2,64] x 9 bf16").as_string(), "cuDNN");
}

TEST(Report, SaysHowManyKernelsAStepStarts) {
  Report report = sample();
  report.compiled.expected.busy_seconds = 2;
  EXPECT_THAT(to_text(report), Not(HasSubstr("starts"))) << "of a TPU";
  report.compiled.expected.starts = 3378;
  report.compiled.expected.start_seconds = 0.0043914;
  EXPECT_THAT(to_text(report), HasSubstr("               starts of kernels 3378 x, 4.391 ms\n"));
  EXPECT_EQ(to_json(report).at("expected").at("starts").as_number(), 3378);
}

TEST(LargestValues, NamesTheirPlaceInTheModel) {
  Graph graph;
  const Tensor x = graph.input({DType::F32, {64, 4}}, "x");
  Tensor y;
  {
    const Scope scope(graph, "attn1");
    y = matmul(x, transpose(x, {1, 0}));
  }
  const std::vector<Tensor> outputs{sum(exp(y))};
  const std::vector<LargeValue> found = largest_values(graph, outputs, 3);
  ASSERT_EQ(found.size(), 3U);
  EXPECT_EQ(found[0].shape, (Shape{DType::F32, {64, 64}}));
  EXPECT_EQ(found[2].place, "x");
  EXPECT_THAT(found[0].place + found[1].place, HasSubstr("attn1/dot_general"));
}

}  // namespace
}  // namespace kinema::planning
