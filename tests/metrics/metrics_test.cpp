#include "kinema/metrics/metrics.h"
#include "kinema/core/error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <limits>
#include <sstream>

#include "io/scratch.h"
#include "kinema/io/json.h"

namespace kinema::metrics {
namespace {

using testing::ElementsAre;
using ::testing::HasSubstr;
using testing::HasSubstr;
using ::testing::ThrowsMessage;

std::string text_of(const std::filesystem::path& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

training::StepRecord record(int64_t step, double loss) {
  return {.step = step,
          .loss = loss,
          .gradient_norm = 2.5,
          .learning_rate = 1e-3,
          .seconds = 0.5,
          .tflops = 0.2};
}

TEST(Metrics, WriteOneRowAStepWithTheReferencesNames) {
  const io::Scratch scratch;
  MetricsFile metrics(scratch / "metrics.jsonl", "run", 0);
  metrics.write(record(7, 0.25));

  const io::Json row = io::Json::parse(text_of(scratch / "metrics.jsonl"), "row");

  EXPECT_EQ(row.at("step").as_int(), 7);
  EXPECT_EQ(row.at("run_name").as_string(), "run");
  EXPECT_EQ(row.at("learning/loss").as_number(), 0.25);
  EXPECT_EQ(row.at("learning/max_grad_norm").as_number(), 2.5);
  EXPECT_EQ(row.at("learning/current_learning_rate").as_number(), 1e-3);
  EXPECT_EQ(row.at("perf/step_time_seconds").as_number(), 0.5);
  EXPECT_EQ(row.at("perf/per_device_tflops_per_sec").as_number(), 0.4);
  EXPECT_THAT(row.at("time").as_string(),
              testing::MatchesRegex("20[0-9-]+T[0-9:]+[.][0-9][0-9][0-9]Z"));
  for (const char* unknown : {"learning/epoch", "perf/rss_bytes", "perf/peak_rss_bytes",
                              "perf/device_bytes_in_use", "perf/device_peak_bytes_in_use"}) {
    EXPECT_FALSE(row.contains(unknown)) << unknown;
  }
}

TEST(Metrics, HoldEpochAndMemoryWhereTheyAreKnown) {
  const io::Scratch scratch;
  MetricsFile metrics(scratch / "metrics.jsonl", "run", 0);
  training::StepRecord known = record(7, 0.25);
  known.epoch = 1.5;
  known.peak_rss_bytes = 3'000'000'000;
  known.rss_bytes = 2'000'000'000;
  known.device_bytes = 5'000'000'000;
  known.peak_device_bytes = 6'000'000'000;
  metrics.write(known);

  const io::Json row = io::Json::parse(text_of(scratch / "metrics.jsonl"), "row");
  EXPECT_EQ(row.at("learning/epoch").as_number(), 1.5);
  EXPECT_EQ(row.at("perf/peak_rss_bytes").as_int(), 3'000'000'000);
  EXPECT_EQ(row.at("perf/rss_bytes").as_int(), 2'000'000'000);
  EXPECT_EQ(row.at("perf/device_bytes_in_use").as_int(), 5'000'000'000);
  EXPECT_EQ(row.at("perf/device_peak_bytes_in_use").as_int(), 6'000'000'000);
}

TEST(Metrics, GiveAnEvaluationARowOfItsOwn) {
  const io::Scratch scratch;
  MetricsFile metrics(scratch / "metrics.jsonl", "run", 0);
  metrics.write(
      19, training::Evaluation{.by_timestep = {{125, 0.5}, {500, 1.5}}, .loss = 1.0, .samples = 4});

  const io::Json row = io::Json::parse(text_of(scratch / "metrics.jsonl"), "row");

  EXPECT_EQ(row.at("step").as_int(), 19);
  EXPECT_EQ(row.at("learning/eval_loss").as_number(), 1.0);
  EXPECT_EQ(row.at("eval/loss_t125").as_number(), 0.5);
  EXPECT_EQ(row.at("eval/loss_t500").as_number(), 1.5);
  EXPECT_TRUE(read_losses(scratch / "metrics.jsonl").steps.empty());
}

TEST(Metrics, DropRowsThatAResumedRunWillWriteAgain) {
  const io::Scratch scratch;
  {
    MetricsFile metrics(scratch / "metrics.jsonl", "run", 0);
    for (int64_t step = 0; step < 5; ++step) {
      metrics.write(record(step, static_cast<double>(step)));
    }
  }
  std::ofstream(scratch / "metrics.jsonl", std::ios::app) << "{\"step\": 5, \"lea";  // torn

  MetricsFile metrics(scratch / "metrics.jsonl", "run", 3);
  metrics.write(record(3, 30.0));

  EXPECT_THAT(read_losses(scratch / "metrics.jsonl").losses, ElementsAre(0.0, 1.0, 2.0, 30.0));
}

TEST(Metrics, KeepRowsOfOtherRunsInTheSameFile) {
  const io::Scratch scratch;
  const std::filesystem::path file = scratch / "all.jsonl";
  for (const char* run : {"first", "second"}) {
    MetricsFile metrics(file, run, 0);
    metrics.write(record(0, run[0] == 'f' ? 1.0 : 2.0));
  }
  MetricsFile again(file, "first", 1);
  again.write(record(1, 3.0));

  EXPECT_THAT(read_losses(file).losses, ElementsAre(1.0, 2.0, 3.0));
  EXPECT_THAT(read_losses(file, "first").losses, ElementsAre(1.0, 3.0));
}

TEST(Metrics, DoNotOverwriteOtherFiles) {
  const io::Scratch scratch;
  const std::filesystem::path file = scratch / "thesis.txt";
  std::ofstream(file) << "my thesis\nline 2\n";

  EXPECT_THAT([&] { MetricsFile(file, "run", 0); },
              ThrowsMessage<Error>(HasSubstr("is not a file of metrics: it is not overwritten")));
  EXPECT_EQ(text_of(file), "my thesis\nline 2\n");
}

TEST(Metrics, RecordNonFiniteSteps) {
  const io::Scratch scratch;
  MetricsFile metrics(scratch / "metrics.jsonl", "run", 0);
  training::StepRecord bad = record(0, std::numeric_limits<double>::quiet_NaN());
  bad.finite = false;
  bad.nonfinite = "blocks.1.ffn";
  metrics.write(bad);

  const io::Json row = io::Json::parse(text_of(scratch / "metrics.jsonl"), "row");

  EXPECT_TRUE(row.at("learning/loss").is_null());
  EXPECT_EQ(row.at("nonfinite").as_string(), "blocks.1.ffn");
  EXPECT_TRUE(read_losses(scratch / "metrics.jsonl").losses.empty());
}

TEST(LossCurve, IsDrawnWithAxesAndTwoLines) {
  const io::Scratch scratch;
  LossCurve curve;
  for (int step = 0; step < 300; ++step) {
    curve.steps.push_back(step);
    curve.losses.push_back(1.0 / (1.0 + 0.05 * step));
  }

  write_curve(scratch / "loss.svg", curve, "shapes <1>");

  const std::string svg = text_of(scratch / "loss.svg");
  EXPECT_THAT(svg, HasSubstr("shapes &lt;1&gt;"));
  EXPECT_THAT(svg, HasSubstr(">200</text>"));  // a round number on the step axis
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  size_t lines = 0;
  for (size_t at = svg.find("<polyline"); at != std::string::npos;
       at = svg.find("<polyline", at + 1)) {
    ++lines;
  }
  EXPECT_EQ(lines, 2);
}

TEST(LossCurve, OfOnePointIsNotDrawn) {
  const io::Scratch scratch;
  write_curve(scratch / "loss.svg", {.steps = {0}, .losses = {1}}, "run");
  EXPECT_FALSE(std::filesystem::exists(scratch / "loss.svg"));
}

}  // namespace
}  // namespace kinema::metrics
