// kinema.h as used by another program.
#include <gmock/gmock.h>
#include <signal.h>

#include <set>
#include <stop_token>

#include "cli/run_kinema.h"
#include "kinema/io/safetensors.h"
#include "kinema/kinema.h"
#include "kinema/planning/target.h"

namespace kinema {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::ThrowsMessage;

class Api : public cli_test::KinemaOnCpu {
 protected:
  // Hides XLA's log lines; plugins read the variable when they are loaded.
  static void SetUpTestSuite() { ::setenv("TF_CPP_MIN_LOG_LEVEL", "1", /*replace=*/0); }
  void SetUp() override {
    KinemaOnCpu::SetUp();
    before_ = fs::current_path();
    fs::current_path(folder_);
  }
  void TearDown() override {
    fs::current_path(before_);
    KinemaOnCpu::TearDown();
  }
  Config tiny(std::vector<std::string> words = {}) const {
    words.insert(words.begin(), "run_name=api");
    return load_config("tiny.yml", words);
  }
  /// A loss as in metrics.jsonl.
  static std::string text(double loss) { return io::Json(loss).dump(); }

  fs::path before_;
};

// Stopped jobs without a result throw.
TEST_F(Api, StopsJobsWithoutOutput) {
  std::stop_source stop;
  stop.request_stop();
  const JobOptions options{.stop = stop.get_token()};

  EXPECT_THROW(generate(tiny(), {}, options), Stopped);
  EXPECT_THROW(evaluate(tiny(), {}, options), Stopped);
  EXPECT_THROW(plan(tiny(), {.target = planning::parse_target("cpu:1"), .job = options}), Stopped);
  EXPECT_THROW(verify("no folder", {}, {.job = options}), Stopped);
  EXPECT_THROW(convert("nothing", "nowhere", {.job = options}), Stopped);
}

TEST_F(Api, ATrainingStoppedBeforeItsStartCompilesNothing) {
  std::stop_source stop;
  stop.request_stop();
  TrainObserver observer;
  observer.on_start = [](const TrainStart&) { FAIL() << "compiled"; };
  const TrainResult result = train(tiny(), observer, {.stop = stop.get_token()});

  EXPECT_TRUE(result.stopped);
  EXPECT_EQ(result.stopped_in, "before the first step");
  EXPECT_FALSE(fs::exists("out/api/checkpoints/1"));
}

TEST_F(Api, ARunIsSampledWithItsOwnTransformer) {
  train(tiny({"max_train_steps=1"}));
  fs::copy("out/api/checkpoints/1/transformer", "other");
  const std::string key = "wan_transformer_pretrained_model_name_or_path=other";
  EXPECT_THAT([&] { generate(tiny({key})); }, ThrowsMessage<Error>(HasSubstr("run_name=")));
}

TEST_F(Api, SamplesASingleWeightsFile) {
  // Files with other programs' names are loaded with a head width of 128.
  train(tiny({"max_train_steps=1", "attention_head_dim=128", "num_attention_heads=1"}));
  convert("out/api/checkpoints/1", "wan.safetensors", {.to = "comfyui"});
  const GenerateResult result =
      generate(tiny({"run_name=", "wan_transformer_pretrained_model_name_or_path=wan.safetensors",
                     "prompt=a circle"}));
  EXPECT_THAT(result.videos, SizeIs(1));
}

TEST_F(Api, AnAdapterIsSampledOnItsRunsBaseModel) {
  train(tiny({"max_train_steps=1"}));
  train(tiny({"run_name=lora", "pretrained_model_name_or_path=out/api", "enable_lora=true",
              "max_train_steps=1"}));
  EXPECT_THAT(generate(tiny({"run_name=lora", "prompt=a circle"})).videos, SizeIs(1));
}

TEST_F(Api, NamesInvalidArguments) {
  EXPECT_THAT([] { load_config("max_train_steps=50"); },
              ThrowsMessage<Error>(HasSubstr("second argument")));
  EXPECT_THAT([] { convert("a", "b", {.to = "diffusers", .max_shard_bytes = 0}); },
              ThrowsMessage<Error>(HasSubstr("shards of 0 bytes")));
  EXPECT_THAT([] { convert("", "b", {.to = "diffusers"}); },
              ThrowsMessage<Error>(HasSubstr("is empty")));
  EXPECT_THAT(
      [&] {
        plan(tiny(), {.target = planning::parse_target("cpu:1"), .job = {.program = "/nowhere"}});
      },
      ThrowsMessage<Error>(HasSubstr("JobOptions::program")));
}

TEST_F(Api, StopsAGenerationAfterItsStepWithoutAVideo) {
  train(tiny({"max_train_steps=1"}));
  std::stop_source stop;
  int64_t steps = 0;
  GenerateObserver observer;
  observer.on_step = [&](int64_t done, int64_t) {
    steps = done;
    stop.request_stop();
  };
  const Config config = tiny({"num_inference_steps=5", "video_folder=videos"});
  EXPECT_THROW(generate(config, observer, {.stop = stop.get_token()}), Stopped);
  EXPECT_EQ(steps, 1);
  EXPECT_FALSE(fs::exists("videos"));  // the job had created it
}

TEST_F(Api, ThrowsErrorsForUnreadableFolders) {
  fs::create_symlink("loop", folder_ / "loop");
  EXPECT_THAT([] { load_config("loop"); }, ThrowsMessage<Error>(HasSubstr("loop")));
  EXPECT_THAT([&] { train(tiny({"checkpoint_dir=loop"})); },
              ThrowsMessage<Error>(HasSubstr("loop")));
  EXPECT_THAT(
      [&] {
        prepare(tiny({"tfrecords_dir=out", "train_data_dir=" + std::string(300, 'x')}));
      },
      ThrowsMessage<Error>(HasSubstr("xxx")));
  EXPECT_THAT([&] { plan(tiny(), {}); }, ThrowsMessage<Error>(HasSubstr("no target")));
}

TEST_F(Api, SavesTheStateWhenAnObserverThrows) {
  const Config config = tiny({"max_train_steps=9", "checkpoint_every=-1"});
  TrainObserver observer;
  observer.on_step = [](const StepRecord& step) {
    if (step.step == 4) {
      throw std::runtime_error("seen enough");
    }
  };
  EXPECT_THROW(train(config, observer), std::runtime_error);
  std::vector<int64_t> steps;
  observer.on_step = [&](const StepRecord& step) { steps.push_back(step.step); };
  train(config, observer);

  EXPECT_THAT(steps, ElementsAre(5, 6, 7, 8));
}

TEST_F(Api, TrainsToTheLossesOfTheProgramAndMakesVideosOfTheRun) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  Config config = tiny({"max_train_steps=3"});
  std::vector<std::string> found;
  TrainObserver observer;
  observer.on_step = [&](const StepRecord& step) { found.push_back(text(step.loss)); };
  const TrainResult trained = train(config, observer);
  config.set("prompt", "a red circle moving up");
  const GenerateResult made = generate(config);
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");

  EXPECT_EQ(trained.steps, 3);
  EXPECT_FALSE(trained.stopped);
  EXPECT_EQ(trained.run_folder, "out/api");
  ASSERT_EQ(run({"train", "tiny.yml", "run_name=program", "max_train_steps=3"}).status, 0);
  EXPECT_EQ(found, losses("program"));
  EXPECT_EQ(losses("api"), losses("program"));

  ASSERT_THAT(made.videos, SizeIs(1));
  EXPECT_TRUE(fs::exists(made.videos[0].path));
  EXPECT_EQ(made.videos[0].prompt, "a red circle moving up");
  EXPECT_EQ(made.videos[0].frames.shape, (Shape{DType::U8, {2, 16, 16, 3}}));
  ASSERT_EQ(run({"generate", "tiny.yml", "run_name=program", "prompt=a red circle moving up",
                 "save_latents=program.safetensors"})
                .status,
            0);
  EXPECT_EQ(made.videos[0].latents.bytes,
            io::SafetensorsFile::open("program.safetensors").at("latents").copy().bytes);
}

TEST_F(Api, ResumesARunAndStopsOneByItsStopToken) {
  std::stop_source stop;
  TrainObserver observer;
  observer.on_step = [&](const StepRecord& step) {
    if (step.step == 1) {
      stop.request_stop();
    }
  };
  const TrainResult first =
      train(tiny({"max_train_steps=1000"}), observer, {.stop = stop.get_token()});
  EXPECT_TRUE(first.stopped);
  EXPECT_EQ(first.steps, 2);
  EXPECT_TRUE(fs::exists("out/api/checkpoints/2/manifest.json"));

  std::vector<int64_t> steps;
  observer.on_step = [&](const StepRecord& step) { steps.push_back(step.step); };
  const TrainResult second = train(tiny({"max_train_steps=4"}), observer);
  EXPECT_EQ(second.steps, 4);
  EXPECT_THAT(steps, ElementsAre(2, 3));
  ASSERT_EQ(run({"train", "tiny.yml", "run_name=whole", "max_train_steps=4",
                 "learning_rate_schedule_steps=1000"})
                .status,
            0);
  EXPECT_EQ(losses("api"), losses("whole"));
}

TEST_F(Api, ChangesNothingInItsHostProcess) {
  const auto handlers = [] {
    std::vector<void (*)(int)> out;
    for (int signal = 1; signal < NSIG; ++signal) {
      struct sigaction found {};
      out.push_back(sigaction(signal, nullptr, &found) == 0 ? found.sa_handler : nullptr);
    }
    return out;
  };
  const auto variables = [] {
    std::set<std::string> out;
    for (char** each = environ; *each != nullptr; ++each) {
      out.emplace(*each);
    }
    return out;
  };
  const auto handlers_before = handlers();
  const auto variables_before = variables();
  Config config = tiny({"max_train_steps=1"});
  TrainObserver observer;
  observer.on_step = [&](const StepRecord&) { EXPECT_EQ(handlers(), handlers_before); };
  train(config, observer);
  generate(config);
  EXPECT_EQ(handlers(), handlers_before);
  EXPECT_EQ(variables(), variables_before);
}

TEST_F(Api, PassesTheProgramsLogLinesToTheObserver) {
  std::vector<std::string> notices;
  std::vector<std::string> lines;
  TrainStart begun;
  TrainObserver observer;
  observer.on_notice = [&](const std::string& line) { notices.push_back(line); };
  observer.on_line = [&](const std::string& line) { lines.push_back(line); };
  observer.on_start = [&](const TrainStart& start) { begun = start; };
  train(tiny({"max_train_steps=2", "profiler_steps=3"}), observer);
  EXPECT_THAT(notices, ElementsAre(HasSubstr("profiler_steps (without enable_profiler)")));
  EXPECT_THAT(lines, ElementsAre(HasSubstr("checkpoint of step 2 saved: out/api/checkpoints/2")));
  EXPECT_EQ(begun.max_steps, 2);
  EXPECT_GT(begun.parameters, 0);
  ASSERT_THAT(begun.steps, SizeIs(1));
  EXPECT_GT(begun.memory.predicted(), 0);
}

TEST_F(Api, CountsParametersOfTheModelAndOfTheAdapter) {
  const auto begun = [&](std::vector<std::string> words) {
    TrainStart out;
    TrainObserver observer;
    observer.on_start = [&](const TrainStart& start) { out = start; };
    words.push_back("max_train_steps=1");
    train(tiny(words), observer);
    return out;
  };
  const TrainStart whole = begun({"run_name=whole"});
  const TrainStart adapter =
      begun({"run_name=adapter", "enable_lora=true", "pretrained_model_name_or_path=out/whole"});
  EXPECT_EQ(adapter.parameters, whole.parameters);
  EXPECT_NE(adapter.trained_parameters, whole.trained_parameters);
}

TEST_F(Api, ThrowsErrorsAndLeavesNothingRunning) {
  EXPECT_THAT([&] { load_config("nothing.yml"); }, ThrowsMessage<Error>(HasSubstr("nothing.yml")));
  EXPECT_THAT([&] { tiny({"learning_rat=1"}); }, ThrowsMessage<Error>(HasSubstr("learning_rate")));
  Config config = tiny();
  EXPECT_THAT([&] { config.set("seed", "blue"); },
              ThrowsMessage<Error>(HasSubstr("seed is `blue`")));
  config.set("seed", 3).set("learning_rate", 0.25).set("scan_layers", true);
  EXPECT_EQ(config.loaded().config.run.seed, 3);
  EXPECT_EQ(config.loaded().config.optimizer.learning_rate, 0.25);
  EXPECT_THAT([&] { generate(config); }, ThrowsMessage<Error>(HasSubstr("no checkpoint")));
  // A run whose folder is not locked any more starts after another's error.
  EXPECT_THAT(
      [&] {
        train(tiny({"train_data_dir=none", "dataset_type=videos"}));
      },
      ThrowsMessage<Error>(HasSubstr("none")));
  EXPECT_EQ(train(tiny({"max_train_steps=1"})).steps, 1);
}

TEST_F(Api, EvaluatesToTheSameLossesAsTraining) {
  const std::string records = std::string(KINEMA_SOURCE_DIR) + "/tests/golden/dataset/tfrecords";
  const std::vector<std::string> words = {
      "pretrained_model_name_or_path=" + std::string(KINEMA_SOURCE_DIR) + "/tests/golden/wan21_t2v",
      "dataset_type=tfrecord",
      "train_data_dir=" + records + "/train",
      "eval_data_dir=" + records + "/eval",
      "eval_every=2",
      "max_train_steps=2",
      "max_sequence_length=32"};
  jobs::Evaluation within;
  TrainObserver observer;
  observer.on_evaluation = [&](int64_t, const jobs::Evaluation& made, double) { within = made; };
  train(tiny(words), observer);
  const EvaluateResult apart = evaluate(tiny(words));
  EXPECT_EQ(apart.step, 2);
  EXPECT_EQ(apart.evaluation.loss, within.loss);
  EXPECT_EQ(apart.evaluation.by_timestep, within.by_timestep);
  EXPECT_GT(apart.evaluation.samples, 0);
}

TEST_F(Api, PlansVerifiesAndConverts) {
  const fs::path program = fs::path(KINEMA_BINARY_DIR) / "kinema";
  const planning::Report report =
      plan(tiny(), {.target = planning::parse_target("cpu:1"), .job = {.program = program}});
  EXPECT_GT(report.compiled.memory.temporary, 0);
  EXPECT_EQ(report.what, "training step");

  train(tiny({"max_train_steps=1"}));
  const ConvertResult made =
      convert("out/api/checkpoints/1", "narrow", {.to = "diffusers", .dtype = DType::BF16});
  EXPECT_EQ(made.source, "out/api/checkpoints/1/transformer");
  EXPECT_TRUE(fs::exists("narrow/config.json"));

  EXPECT_THAT([] { verify("nowhere"); }, ThrowsMessage<Error>(HasSubstr("nowhere")));
}

}  // namespace
}  // namespace kinema
