#include "kinema/metrics/metrics_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "io/scratch.h"
#include "kinema/metrics/metrics.h"

namespace kinema::metrics {
namespace {

training::StepRecord record(int64_t step, double loss) {
  return {.step = step,
          .loss = loss,
          .gradient_norm = 2.5,
          .learning_rate = 1e-3,
          .seconds = 0.5,
          .tflops = 0.2};
}

TEST(MetricsReader, FollowsWhatIsWritten) {
  const io::Scratch scratch;
  MetricsReader reader(scratch / "metrics.jsonl");
  EXPECT_FALSE(reader.poll()) << "no file yet";

  MetricsFile metrics(scratch / "metrics.jsonl", "run", 0);
  metrics.write(record(0, 0.25));
  EXPECT_TRUE(reader.poll());
  EXPECT_FALSE(reader.poll());
  metrics.write(0, training::Evaluation{.by_timestep = {{500, 0.5}}, .loss = 0.5, .samples = 1});
  metrics.write(record(1, 0.125));
  EXPECT_TRUE(reader.poll());

  ASSERT_EQ(reader.rows().size(), 2);
  const MetricsRow& row = reader.rows()[1];
  EXPECT_EQ(row.step, 1);
  EXPECT_EQ(row.loss, 0.125);
  EXPECT_EQ(row.gradient_norm, 2.5);
  EXPECT_EQ(row.learning_rate, 1e-3);
  EXPECT_EQ(row.seconds, 0.5);
  EXPECT_EQ(row.tflops_per_second, 0.4);
}

TEST(MetricsReader, WaitsForCompleteLinesAndSkipsInvalidOnes) {
  const io::Scratch scratch;
  std::ofstream out(scratch / "metrics.jsonl");
  out << "null\n[1]\n{\"step\": \"x\"}\n{\"step\": 1e300}\n\xff\n{\"step\": 3, \"learning/l"
      << std::flush;
  MetricsReader reader(scratch / "metrics.jsonl");
  reader.poll();
  EXPECT_TRUE(reader.rows().empty());

  out << "oss\": null, \"nonfinite\": \"blocks.1\"}\n" << std::flush;
  EXPECT_TRUE(reader.poll());
  ASSERT_EQ(reader.rows().size(), 1);
  EXPECT_EQ(reader.rows()[0].step, 3);
  EXPECT_TRUE(std::isnan(reader.rows()[0].loss));
  EXPECT_EQ(reader.rows()[0].nonfinite, "blocks.1");
}

TEST(MetricsReader, RestartsWhenAResumedRunRewritesTheFile) {
  const io::Scratch scratch;
  MetricsReader reader(scratch / "metrics.jsonl");
  {
    MetricsFile metrics(scratch / "metrics.jsonl", "run", 0);
    for (int64_t step = 0; step < 5; ++step) {
      metrics.write(record(step, 1));
    }
    reader.poll();
    ASSERT_EQ(reader.rows().size(), 5);
  }
  MetricsFile resumed(scratch / "metrics.jsonl", "run", 3);
  for (int64_t step = 3; step < 9; ++step) {
    resumed.write(record(step, 2));
  }
  EXPECT_TRUE(reader.poll());
  ASSERT_EQ(reader.rows().size(), 9);
  EXPECT_EQ(reader.rows()[3].loss, 2);
}

}  // namespace
}  // namespace kinema::metrics
