#include "kinema/agents/train.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <stop_token>
#include <string>
#include <vector>

#include "kinema/agents/evaluate.h"
#include "kinema/core/error.h"
#include "kinema/io/json.h"
#include "kinema/media/video.h"

namespace kinema::agents {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class AgentTraining : public ::testing::Test {
 protected:
  AgentTraining() : folder_(fs::path(::testing::TempDir()) / name()) { fs::remove_all(folder_); }

  static std::string name() {
    return std::string("agents_") + ::testing::UnitTest::GetInstance()->current_test_info()->name();
  }

  /// A small agent with few steps.
  Settings settings(const std::string& run, std::vector<std::string> more) const {
    std::vector<std::string> words{"preset=debug",        "output_dir=" + folder_.string(),
                                   "run_name=" + run,     "jax.debug=false",
                                   "batch_size=2",        "batch_length=4",
                                   "replay.chunksize=16", "run.log_every=0",
                                   "run.save_every=0",    "agent.imag_length=3",
                                   "agent.opt.warmup=2",  "agent.opt.lr=1e-3",
                                   "jax.prealloc=true",   "jax.compute_dtype=float32"};
    words.insert(words.end(), more.begin(), more.end());
    return Settings::read(fs::path(KINEMA_SOURCE_DIR) / "configs/dreamer.yml", words);
  }

  /// Trains until a step, then asks to stop. `settings` must log every step.
  TrainResult until(const Settings& settings, int64_t step) const {
    std::stop_source stop;
    TrainObserver observer;
    observer.on_progress = [&](const TrainProgress& now) {
      if (now.step >= step) {
        stop.request_stop();
      }
    };
    JobOptions options;
    options.stop = stop.get_token();
    return train(settings, observer, options);
  }

  std::string bytes(const fs::path& file) const {
    std::ifstream in(file, std::ios::binary);
    EXPECT_TRUE(in.is_open()) << file;
    return {std::istreambuf_iterator<char>(in), {}};
  }
  fs::path checkpoint(const std::string& run) const {
    for (const auto& entry : fs::directory_iterator(folder_ / run / "ckpt")) {
      if (entry.is_directory()) {
        return entry.path();
      }
    }
    ADD_FAILURE() << run << " has no checkpoint";
    return {};
  }

  /// Every file of two checkpoints, byte for byte.
  void expect_same_checkpoints(const std::string& a, const std::string& b) const {
    std::set<std::string> files;
    for (const auto& run : {a, b}) {
      for (const auto& entry : fs::recursive_directory_iterator(checkpoint(run))) {
        if (entry.is_regular_file()) {
          files.insert(fs::relative(entry.path(), checkpoint(run)).string());
        }
      }
    }
    EXPECT_GE(files.size(), 5U);
    EXPECT_THAT(files, Contains("agent.safetensors"));
    for (const std::string& file : files) {
      EXPECT_TRUE(bytes(checkpoint(a) / file) == bytes(checkpoint(b) / file)) << file;
    }
  }

  fs::path folder_;
};

const std::vector<std::string> kCatch{"task=native_catch", R"(.*\.mults=[2])", R"(.*\.kernel=3)",
                                      R"(.*\.depth=4)", "run.steps=120"};
const std::vector<std::string> kCartPole{"task=native_cartpole", "run.steps=120",
                                         "run.env_groups=2"};

TEST_F(AgentTraining, TrainsAndWritesWhatTheOriginalWrites) {
  const TrainResult result = train(settings("run", kCatch), {}, {});
  EXPECT_EQ(result.step, 120);
  EXPECT_FALSE(result.stopped);
  // The first step of training comes with the 8th window; then ratio 8 means one for each 8 / 8
  // steps of the environments.
  EXPECT_GT(result.updates, 50);
  EXPECT_LT(result.updates, 120);
  EXPECT_GT(result.episodes, 10);
  std::ifstream metrics(folder_ / "run/metrics.jsonl");
  std::set<std::string> names;
  for (std::string line; std::getline(metrics, line);) {
    const io::Json row = io::Json::parse(line, "metrics");
    for (const auto& [name, value] : row.members()) {
      names.insert(name);
    }
  }
  for (const char* name :
       {"step", "episode/score", "episode/length", "epstats/reward_rate", "train/loss/image",
        "train/loss/dyn", "train/loss/repval", "train/opt/grad_norm", "train/opt/updates",
        "train/ent/action", "train/rand/action", "train/ret_rate", "fps/policy", "fps/train",
        "replay/items"}) {
    EXPECT_TRUE(names.contains(name)) << name;
  }
  std::ifstream scores(folder_ / "run/scores.jsonl");
  std::string line;
  ASSERT_TRUE(std::getline(scores, line));
  EXPECT_TRUE(io::Json::parse(line, "scores").contains("episode/score")) << line;
}

TEST_F(AgentTraining, AResumedRunIsBitExact) {
  for (const auto& [name, task] : {std::pair{"catch", kCatch}, {"cart_pole", kCartPole}}) {
    const std::string once = std::string(name) + "_once";
    const std::string parts = std::string(name) + "_parts";
    train(settings(once, task), {}, {});
    std::vector<std::string> logging = task;
    logging.emplace_back("run.log_every=1e-9");
    for (const int64_t step : {1, 30, 60, 61, 90}) {
      const TrainResult part = until(settings(parts, logging), step);
      EXPECT_TRUE(part.stopped) << step;
      EXPECT_GE(part.step, step);
    }
    const TrainResult result = train(settings(parts, task), {}, {});
    EXPECT_EQ(result.step, 120);
    expect_same_checkpoints(once, parts);
  }
}

TEST_F(AgentTraining, ReplayOnTheDiskChangesNothing) {
  std::vector<std::string> words = kCatch;
  words.emplace_back("replay.fracs.uniform=0.5");
  words.emplace_back("replay.fracs.recency=0.5");
  words.emplace_back("replay.size=60");
  train(settings("memory", words), {}, {});
  words.emplace_back("replay.memory_gib=1e-6");  // less than a chunk
  std::vector<std::string> logging = words;
  logging.emplace_back("run.log_every=1e-9");
  for (const int64_t step : {30, 61, 90}) {
    EXPECT_TRUE(until(settings("disk", logging), step).stopped);
  }
  TrainObserver observer;
  std::string replay;
  std::vector<std::string> notices;
  observer.on_start = [&](const TrainStart& start) { replay = start.replay; };
  observer.on_notice = [&](const std::string& line) { notices.push_back(line); };
  train(settings("disk", words), observer, {});
  EXPECT_THAT(replay, HasSubstr("at most 60 steps of"));
  EXPECT_THAT(replay, HasSubstr((folder_ / "disk/replay").string()));
  EXPECT_THAT(notices, ::testing::IsEmpty());
  EXPECT_TRUE(fs::exists(folder_ / "disk/replay"));
  for (const char* file : {"agent.safetensors", "counts.json"}) {
    EXPECT_TRUE(bytes(checkpoint("memory") / file) == bytes(checkpoint("disk") / file)) << file;
  }
  // What is lost of it is said, and the run goes on.
  for (const auto& entry : fs::directory_iterator(folder_ / "disk/replay")) {
    fs::resize_file(entry.path(), 10);
    break;
  }
  words.emplace_back("run.steps=140");
  EXPECT_EQ(train(settings("disk", words), observer, {}).step, 140);
  EXPECT_THAT(notices, ::testing::ElementsAre(HasSubstr("it is left out")));
}

TEST_F(AgentTraining, EvaluatesWhileItTrainsOrAlone) {
  std::vector<std::string> words = kCatch;
  words.insert(words.end(), {"run.steps=60", "run.report_every=1e-3", "agent.report=false"});
  train(settings("alone", words), {}, {});
  words.insert(words.end(), {"script=train_eval", "run.eval_envs=2", "run.eval_eps=3"});
  train(settings("evaluated", words), {}, {});
  expect_same_checkpoints("alone", "evaluated");
  EXPECT_THAT(bytes(folder_ / "evaluated/metrics.jsonl"), HasSubstr("eval/score"));
  words.insert(words.end(), {"script=eval_only", "run.eval_envs=2"});
  EXPECT_THAT([&] { train(settings("only", words), {}, {}); },
              ThrowsMessage<Error>(HasSubstr("run.from_checkpoint=PATH")));
  words.emplace_back("run.from_checkpoint=" + (folder_ / "alone").string());
  const TrainResult result = train(settings("only", words), {}, {});
  EXPECT_EQ(result.step, 60);
  EXPECT_EQ(result.updates, 0);
  EXPECT_GE(result.episodes, 8);  // four environments, episodes of five steps
  words.emplace_back("script=parallel");
  EXPECT_THAT([&] { train(settings("none", words), {}, {}); },
              ThrowsMessage<Error>(HasSubstr("must be train, train_eval or eval_only")));
}

TEST_F(AgentTraining, SeedsDecideTheRun) {
  std::vector<std::string> words = kCatch;
  words.emplace_back("run.steps=40");
  train(settings("one", words), {}, {});
  train(settings("same", words), {}, {});
  words.emplace_back("seed=1");
  train(settings("other", words), {}, {});
  expect_same_checkpoints("one", "same");
  EXPECT_FALSE(bytes(checkpoint("one") / "agent.safetensors") ==
               bytes(checkpoint("other") / "agent.safetensors"));
}

TEST_F(AgentTraining, AnAgentIsEvaluatedAndDrawn) {
  std::vector<std::string> words = kCatch;
  words.emplace_back("run.steps=40");
  train(settings("run", words), {}, {});
  EvaluateObserver observer;
  int64_t steps = 0;
  observer.on_step = [&](int64_t, const std::string&, double) { ++steps; };
  const EvaluateOptions options{.episodes = 7,
                                .environments = 3,
                                .video = folder_ / "episode.mp4",
                                .sheet = folder_ / "episode.png",
                                .open_loop = folder_ / "open_loop.mp4"};
  const EvaluateResult result = evaluate(folder_ / "run", options, observer, {});
  EXPECT_EQ(result.scores.size(), 7U);
  EXPECT_EQ(steps, 5);  // the observations of an episode with 5 rows
  EXPECT_EQ(result.step, 40);
  for (const double score : result.scores) {
    EXPECT_EQ(std::abs(score), 1.0);
  }
  EXPECT_GT(fs::file_size(options.video), 0U);
  EXPECT_GT(fs::file_size(options.sheet), 0U);
  // Five steps and five black frames: truth, prediction and difference of one row with its border.
  const media::VideoProbe probe = media::probe_video(options.open_loop);
  EXPECT_EQ(probe.frames, 10);
  EXPECT_EQ(probe.height % (3 * 10 + 4), 0);
  EXPECT_EQ(probe.width % (10 + 4), 0);
  EXPECT_EQ(evaluate(folder_ / "run", options, {}, {}).scores, result.scores);
}

TEST_F(AgentTraining, ARandomAgentOnlyPlays) {
  std::vector<std::string> words = kCatch;
  words.emplace_back("random_agent=true");
  const TrainResult result = train(settings("run", words), {}, {});
  EXPECT_EQ(result.updates, 0);
  EXPECT_GT(result.episodes, 10);
}

TEST_F(AgentTraining, PredictionsAreWrittenWhileTrainingAndChangeNothing) {
  std::vector<std::string> words = kCatch;
  words.emplace_back("run.steps=40");
  words.emplace_back("run.report_every=0");
  train(settings("alone", words), {}, {});
  EXPECT_FALSE(fs::exists(folder_ / "alone/open_loop"));
  words.back() = "run.report_every=1e-3";
  train(settings("reported", words), {}, {});
  int64_t videos = 0;
  for (const auto& entry : fs::directory_iterator(folder_ / "reported/open_loop")) {
    EXPECT_EQ(entry.path().extension(), ".mp4");
    ++videos;
  }
  EXPECT_GT(videos, 0);
  expect_same_checkpoints("alone", "reported");
}

TEST_F(AgentTraining, ARunGoesOnFromAnothersAgent) {
  std::vector<std::string> words = kCatch;
  words.emplace_back("run.steps=40");
  const int64_t updates = train(settings("run", words), {}, {}).updates;
  ASSERT_GT(updates, 0);
  // A run, a file, and the folders of the original, whose `latest` names one of them.
  fs::create_directories(folder_ / "original/ckpt/stamp");
  fs::copy_file(checkpoint("run") / "agent.safetensors",
                folder_ / "original/ckpt/stamp/agent.safetensors");
  std::ofstream(folder_ / "original/ckpt/latest") << "stamp\n";
  int64_t number = 0;
  for (const fs::path& from : {folder_ / "run", checkpoint("run") / "agent.safetensors",
                               folder_ / "original", folder_ / "original/ckpt"}) {
    words.emplace_back("run.from_checkpoint=" + from.string());
    const std::string run = "from" + std::to_string(number++);
    EXPECT_EQ(train(settings(run, words), {}, {}).updates, 2 * updates) << from;
    words.pop_back();
  }
  words.emplace_back("run.from_checkpoint=" + (folder_ / "nothing").string());
  EXPECT_THAT([&] { train(settings("none", words), {}, {}); },
              ThrowsMessage<Error>(HasSubstr("nor a run")));
}

TEST_F(AgentTraining, OtherSettingsDoNotReadItsCheckpoint) {
  std::vector<std::string> words = kCatch;
  words.emplace_back("run.steps=40");
  train(settings("run", words), {}, {});
  words.emplace_back(R"(.*\.units=16)");
  EXPECT_THAT([&] { train(settings("run", words), {}, {}); },
              ThrowsMessage<Error>(HasSubstr("settings of the run have changed")));
  EXPECT_THAT([&] { (void)evaluate(folder_ / "nothing", {}, {}, {}); }, ::testing::Throws<Error>());
}

}  // namespace
}  // namespace kinema::agents
