#include "kinema/planning/report.h"

#include <gmock/gmock.h>

#include "kinema/graph/ops.h"

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
