// `kinema watch` on run folders of `train`.
#include <gmock/gmock.h>

#include <chrono>

#include "cli/run_kinema.h"
#include "kinema/io/json.h"

namespace kinema::cli_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class Watch : public KinemaTest {
 protected:
  void write_steps(int steps) {
    std::string text;
    for (int step = 0; step < steps; ++step) {
      text += "{\"step\": " + std::to_string(step) +
              ", \"learning/loss\": " + std::to_string(1.0 / (step + 1)) +
              ", \"learning/grad_norm\": 0.5, \"learning/current_learning_rate\": 1e-4, "
              "\"perf/step_time_seconds\": 2.0, \"perf/per_device_tflops_per_sec\": 0.25}\n";
    }
    write("run/metrics.jsonl", text);
  }
};

TEST_F(Watch, DrawsWhatARunHasReached) {
  write_steps(20);
  write("run/config.yml", "run_name: run\nmax_train_steps: 50\n");
  std::filesystem::create_directories(folder_ / "run/checkpoints/10");

  const Outcome outcome = run({"watch", "run"});

  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("stopped after 20 steps of 50"), HasSubstr("loss 0.05"),
                                 HasSubstr("2.000 s a step"), HasSubstr("newest after step 10"),
                                 HasSubstr("         1 ")));
}

TEST_F(Watch, PrintsNumbersForMachines) {
  write_steps(3);
  const Outcome outcome = run({"watch", "run", "--json"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  const io::Json json = io::Json::parse(outcome.out, "watch");
  EXPECT_EQ(json.at("steps").as_int(), 3);
  EXPECT_FALSE(json.at("done").as_bool());
  EXPECT_EQ(json.at("gradient_norm").as_number(), 0.5);
}

TEST_F(Watch, NamesStepsThatWereNotFinite) {
  write("run/metrics.jsonl",
        "{\"step\": 0, \"learning/loss\": 1.0}\n"
        "{\"step\": 1, \"learning/loss\": null, \"nonfinite\": \"blocks.3.attn1\"}\n");
  EXPECT_THAT(run({"watch", "run", "--once"}).out,
              HasSubstr("1 step was not finite, the last:   step 2 in blocks.3.attn1"));
}

TEST_F(Watch, RefusesWhatIsNoRun) {
  run({"watch", "none"}).expect_error("is not a run folder");
  std::filesystem::create_directories(folder_ / "empty");
  run({"watch", "empty"}).expect_error("has no step yet");
  write("clips/a.txt", "a caption");
  run({"watch", "clips"}).expect_error("clips is not a run folder: it has neither config.yml nor");
  write("run/metrics.jsonl", "");
  run({"watch", "run"}).expect_error("has no step yet");
  write("run/config.yml", "max_train_stepz: 3\n");
  run({"watch", "run"}).expect_error("max_train_steps");
}

TEST_F(Watch, RefusesPausesThatAreNoTime) {
  write_steps(3);
  for (const std::string every : {"nan", "0", "-1", "inf", "1e9"}) {
    SCOPED_TRACE(every);
    run({"watch", "run", "--every=" + every}).expect_error("--every");
  }
  EXPECT_EQ(run({"watch", "run", "--every=0.5"}).status, 0);
}

TEST_F(Watch, NamesTheRunsOfAFolderOfRuns) {
  const std::string step = "{\"step\": 0, \"learning/loss\": 1.0}\n";
  write("outputs/shapes/metrics.jsonl", step);
  write("outputs/cats/metrics.jsonl", step);
  write("outputs/encoded/record", "");
  std::filesystem::last_write_time(
      folder_ / "outputs/shapes/metrics.jsonl",
      std::filesystem::last_write_time(folder_ / "outputs/cats/metrics.jsonl") -
          std::chrono::hours(1));
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"watch", "outputs", "--once"},
        {"watch", "outputs", "--json"},
        {"compare", "outputs", "outputs/cats"}}) {
    const Outcome outcome = run(command);
    outcome.expect_error("outputs is not a run, but contains 2 runs: cats, shapes\n");
    EXPECT_THAT(outcome.err, HasSubstr("e.g. outputs/cats"));
  }
}

}  // namespace
}  // namespace kinema::cli_test
