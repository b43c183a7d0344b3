// Runs that resume from checkpoints without the optimizer's state, or without EMA weights.
#include <gmock/gmock.h>

#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "jobs/call_kinema.h"
#include "kinema/io/json.h"

namespace kinema::jobs_test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

class PartialResume : public RunsTest {
 protected:
  /// Two steps, then two more, with different arguments.
  Outcome in_parts(std::vector<std::string> all, const std::vector<std::string>& first,
                   const std::vector<std::string>& second) {
    const auto train = [&](const std::vector<std::string>& more) {
      std::vector<std::string> words = all;
      words.insert(words.end(), more.begin(), more.end());
      return run(words);
    };
    std::vector<std::string> half = first;
    half.emplace_back("max_train_steps=2");
    half.emplace_back("learning_rate_schedule_steps=4");
    const Outcome before = train(half);
    EXPECT_EQ(before.status, 0) << before.err;
    Outcome after = train(second);
    EXPECT_EQ(after.status, 0) << after.err;
    EXPECT_THAT(after.out, HasSubstr("resumed after step 2"));
    return after;
  }
  /// An integer in train_state.json.
  int64_t count(const fs::path& run_folder, const std::string& name) const {
    return io::Json::read(folder_ / run_folder / "checkpoints/4/train_state.json")
        .at(name)
        .as_int();
  }
  std::vector<double> rates(const std::string& name) const {
    std::vector<double> out;
    std::istringstream rows(read_text(folder_ / "out" / name / "metrics.jsonl"));
    for (std::string row; std::getline(rows, row);) {
      out.push_back(
          io::Json::parse(row, "metrics.jsonl").at("learning/current_learning_rate").as_number());
    }
    return out;
  }
};

TEST_F(PartialResume, KeepsScheduleAndAverageWithoutAnOptimizersState) {
  for (const std::string optimizer : {"adamw", "adamw8bit", "adafactor"}) {
    SCOPED_TRACE(optimizer);
    const std::vector<std::string> words{"train",
                                         "tiny.yml",
                                         "run_name=" + optimizer,
                                         "optimizer=" + optimizer,
                                         "save_optimizer=false",
                                         "ema_decay=0.99",
                                         "lr_schedule=linear"};
    const Outcome after = in_parts(words, {}, {"save_optimizer=true"});
    EXPECT_THAT(after.out, HasSubstr("the moments start at zero"));
    const fs::path made = fs::path("out") / optimizer;
    EXPECT_EQ(count(made, "updates"), 4);
    EXPECT_EQ(count(made, "updates_of_moments"), 2);
    EXPECT_EQ(count(made, "updates_of_average"), 4);
  }
  ASSERT_EQ(run({"train", "tiny.yml", "run_name=whole", "lr_schedule=linear"}).status, 0);
  EXPECT_EQ(rates("adamw"), rates("whole"));
}

TEST_F(PartialResume, BeginsAnAverageThatWasNotKept) {
  const Outcome after = in_parts({"train", "tiny.yml", "run_name=later"}, {}, {"ema_decay=0.99"});
  EXPECT_THAT(after.out, AllOf(HasSubstr("changed: ema_decay: 0 -> 0.99"),
                               HasSubstr("the checkpoint has no EMA weights")));
  EXPECT_EQ(count("out/later", "updates"), 4);
  EXPECT_EQ(count("out/later", "updates_of_moments"), 4);
  EXPECT_EQ(count("out/later", "updates_of_average"), 2);
}

TEST_F(PartialResume, KeepsTheAverageOfAnAdapter) {
  const fs::path source(KINEMA_SOURCE_DIR);
  const Outcome after =
      in_parts({"train", (source / "configs/finetune_lora.yml").string(), "run_name=lora",
                "train_data_dir=" + (source / "tests/golden/dataset").string(),
                "pretrained_model_name_or_path=" + (source / "tests/golden/wan21_t2v").string(),
                "height=64", "width=64", "num_frames=17", "max_sequence_length=32", "eval_every=-1",
                "weights_dtype=float32", "activations_dtype=float32", "max_train_steps=4",
                "enable_generate_video_for_eval=false", "checkpoint_every=-1", "ema_decay=0.99",
                "save_optimizer=false"},
               {}, {});
  EXPECT_EQ(count("outputs/lora", "updates"), 4);
  EXPECT_EQ(count("outputs/lora", "updates_of_average"), 4);
}

// Between the two renames, on a file system that cannot exchange names.
TEST_F(PartialResume, FindsTheCheckpointThatAnInterruptedWriterHadPutAside) {
  ASSERT_EQ(run({"train", "tiny.yml", "max_train_steps=2"}).status, 0);
  const fs::path checkpoints = folder_ / "out/tiny/checkpoints";
  fs::rename(checkpoints / "2", checkpoints / "2.replaced");
  const Outcome after = run({"train", "tiny.yml"});
  ASSERT_EQ(after.status, 0) << after.err;
  EXPECT_THAT(after.out, HasSubstr("resumed after step 2"));
  EXPECT_TRUE(fs::exists(checkpoints / "2"));
  EXPECT_FALSE(fs::exists(checkpoints / "2.replaced"));
}

/// Commands that read a run's newest checkpoint while it is training.
class BesideATraining : public RunsTest {
 protected:
  void SetUp() override {
    RunsTest::SetUp();
    if (IsSkipped()) {
      return;
    }
    const std::string data = std::string(KINEMA_SOURCE_DIR) + "/tests/golden/dataset";
    std::string config = tiny_config();
    const std::string synthetic = "dataset_type: synthetic";
    config.replace(config.find(synthetic), synthetic.size(),
                   "dataset_type: videos\ntrain_data_dir: " + data +
                       "\neval_split: 0.25\ncheckpoint_every: 2\ncheckpoints_to_keep: 0");
    write("tiny.yml", config);
    const Outcome trained = run({"train", "tiny.yml"});
    ASSERT_EQ(trained.status, 0) << trained.err;
    fs::rename(checkpoints() / "4", folder_ / "aside");
  }
  fs::path checkpoints() const { return folder_ / "out/tiny/checkpoints"; }
  /// Simulates the progress of the training.
  void go_on() const {
    if (fs::exists(checkpoints() / "2")) {
      fs::rename(folder_ / "aside", checkpoints() / "4");
      fs::remove_all(checkpoints() / "2");
    }
  }
  /// `job` in the test's folder, with the tiny configuration.
  template <typename Job>
  auto here(const std::vector<std::string>& words, const Job& job) const {
    struct There {
      explicit There(const fs::path& folder) { fs::current_path(folder); }
      ~There() { fs::current_path(before); }
      fs::path before = fs::current_path();
    };
    const There there(folder_);
    return job(load_config("tiny.yml", words, {}));
  }
};

TEST_F(BesideATraining, GenerateTakesTheNewestAgain) {
  std::vector<std::string> said;
  GenerateObserver observer;
  observer.on_notice = [&](const std::string& line) { said.push_back(line); };
  observer.on_begin = [&] { go_on(); };  // a checkpoint is selected, its weights are not read yet
  const GenerateResult made =
      here({"prompt=a square"}, [&](const Config& config) { return generate(config, observer); });
  EXPECT_THAT(
      said, ::testing::Contains(AllOf(HasSubstr("checkpoints/2 was removed by a running training"),
                                      HasSubstr("the newest checkpoint is used instead"))));
  EXPECT_THAT(made.transformer.string(), HasSubstr("checkpoints/4/"));
  ASSERT_EQ(made.videos.size(), 1U);
  EXPECT_THAT(made.videos[0].path, HasSubstr("samples/4/"));
}

TEST_F(BesideATraining, EvaluateTakesTheNewestAgain) {
  Observer observer;
  observer.on_task = [&](const std::string& what, int64_t) {
    if (what == "evaluating") {
      go_on();
    }
    return std::make_unique<Task>();
  };
  const EvaluateResult found =
      here({}, [&](const Config& config) { return evaluate(config, observer); });
  EXPECT_EQ(found.step, 4);
}

// A requested step is never replaced by another one.
TEST_F(BesideATraining, ARequestedStepIsNotReplaced) {
  Observer observer;
  observer.on_task = [&](const std::string& what, int64_t) {
    if (what == "evaluating") {
      go_on();
    }
    return std::make_unique<Task>();
  };
  EXPECT_THROW(here({"generate_checkpoint_step=2"},
                    [&](const Config& config) { return evaluate(config, observer); }),
               Error);
}

}  // namespace
}  // namespace kinema::jobs_test
