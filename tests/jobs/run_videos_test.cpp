// Videos of a run's prompts during the training, on the CPU plugin.
#include <gmock/gmock.h>

#include <string>

#include "jobs/call_kinema.h"
#include "kinema/io/json.h"

namespace kinema::jobs_test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

class RunVideos : public RunsTest {
 protected:
  std::string bytes(const fs::path& path) {
    std::string out = read_text(folder_ / path);
    EXPECT_FALSE(out.empty()) << path;
    return out;
  }
  /// The mp4 and contact sheet in samples/STEP equal those that generate makes from the checkpoint
  /// STEP.
  void expect_as_generated(int step, std::vector<std::string> settings) {
    const std::string name = "generated" + std::to_string(step);
    settings.insert(settings.begin(), {"generate", "tiny.yml", "video_folder=" + name,
                                       "generate_checkpoint_step=" + std::to_string(step)});
    const Outcome outcome = run(settings);
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    const fs::path made = fs::path("out/tiny/samples") / std::to_string(step);
    for (const char* file :
         {"000_a_red_circle.mp4", "001_a_blue_square.mp4", "contact_sheet.png"}) {
      EXPECT_EQ(bytes(made / file), bytes(fs::path(name) / file)) << file;
    }
  }
  /// All bytes of the run's event files.
  std::string events() {
    std::string out;
    for (const auto& entry : fs::directory_iterator(folder_ / "out/tiny/tensorboard")) {
      out += read_text(entry.path());
    }
    return out;
  }
};

size_t count(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++n;
  }
  return n;
}

TEST_F(RunVideos, AreThoseThatGenerateMakesOfTheCheckpoint) {
  write("prompts.txt", "a red circle\na blue square\n");
  std::vector<std::string> settings{"prompt_file=prompts.txt", "negative_prompt=grey",
                                    "num_frames=8", "fps=8"};
  std::vector<std::string> words{
      "train",        "tiny.yml",           "enable_generate_video_for_eval=true",
      "eval_every=2", "checkpoint_every=2", "learning_rate=0.05"};
  words.insert(words.end(), settings.begin(), settings.end());
  const Outcome outcome = run(words);

  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("2 videos after step 2: out/tiny/samples/2"));
  EXPECT_THAT(outcome.out, HasSubstr("2 videos after step 4: out/tiny/samples/4"));
  expect_as_generated(2, settings);
  expect_as_generated(4, settings);
  EXPECT_NE(bytes("out/tiny/samples/2/contact_sheet.png"),
            bytes("out/tiny/samples/4/contact_sheet.png"));
  const std::string seen = events();
  EXPECT_EQ(count(seen, "GIF89a"), 4U);
  EXPECT_EQ(count(seen, "samples/001_a_blue_square"), 2U);
  // A video's .json makes it again, from the same checkpoint.
  const std::string made = "out/tiny/samples/2/001_a_blue_square.json";
  const Outcome there = run({"generate", made, "executable_cache=../kinema_cli_programs"});
  EXPECT_EQ(there.status, 0) << there.err;
  EXPECT_EQ(bytes("out/tiny/samples/2/001_a_blue_square_1.mp4"),
            bytes("out/tiny/samples/2/001_a_blue_square.mp4"));
  run({"generate", made, "generate_checkpoint_step=3"})
      .expect_error("has no checkpoint of step 3; there are 2, 4");
  // In another folder, the folder of runs is unknown.
  fs::copy(folder_ / made, folder_ / "moved.json");
  run({"generate", "moved.json"}).expect_error("outputs/tiny/checkpoints contains no checkpoint");
  const Outcome again = run({"generate", made, "output_dir=out", "video_folder=again",
                             "executable_cache=../kinema_cli_programs"});
  EXPECT_EQ(again.status, 0) << again.err;
  EXPECT_THAT(again.err, HasSubstr("are not used, because they are of the machine"));
  EXPECT_EQ(bytes("again/001_a_blue_square.mp4"),
            bytes("out/tiny/samples/2/001_a_blue_square.mp4"));
}

TEST_F(RunVideos, AreOfTheAveragedWeightsWhereThereAreSuchInTheDtypeThatGenerateLoads) {
  write("prompts.txt", "a red circle\na blue square\n");
  std::vector<std::string> settings{"prompt_file=prompts.txt", "num_frames=8",
                                    "weights_dtype=bfloat16",  "activations_dtype=bfloat16",
                                    "cpu_device_count=2",      "ici_fsdp_parallelism=2"};
  std::vector<std::string> words{
      "train",        "tiny.yml",      "enable_generate_video_for_eval=true",
      "eval_every=4", "ema_decay=0.5", "learning_rate=0.05",
      "seed=3"};
  words.insert(words.end(), settings.begin(), settings.end());
  const Outcome outcome = run(words);

  ASSERT_EQ(outcome.status, 0) << outcome.err;
  settings.emplace_back("seed=3");
  expect_as_generated(4, settings);
}

TEST_F(RunVideos, BeforeAndAfterTrainingAreCompared) {
  const Outcome outcome =
      run({"train", "tiny.yml", "enable_ssim=true", "num_frames=8", "learning_rate=0.05",
           "max_train_steps=2", "learning_rate_schedule_steps=4", "prompt=a ball"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("1 video before training: out/tiny/samples/0"));
  EXPECT_THAT(outcome.out, HasSubstr("SSIM score after training is 0."));
  const std::string metrics = read_text(folder_ / "out/tiny/metrics.jsonl");
  const io::Json row =
      io::Json::parse(metrics.substr(metrics.rfind('\n', metrics.size() - 2) + 1), "metrics");
  EXPECT_EQ(row.at("step").as_int(), 1);
  EXPECT_GT(row.at("eval/ssim").as_number(), 0);
  EXPECT_LT(row.at("eval/ssim").as_number(), 1);
  EXPECT_GT(row.at("eval/psnr").as_number(), 0);
  EXPECT_THAT(events(), HasSubstr("eval/ssim"));
  // A resumed run compares with the video from before the first step, not from before the resume.
  const Outcome more =
      run({"train", "tiny.yml", "enable_ssim=true", "num_frames=8", "learning_rate=0.05",
           "learning_rate_schedule_steps=4", "enable_generate_video_for_eval=true", "eval_every=1",
           "prompt=a ball"});
  ASSERT_EQ(more.status, 0) << more.err;
  EXPECT_THAT(more.out, Not(HasSubstr("before training: out")));
  EXPECT_EQ(count(more.out, "against before training: SSIM"), 2U) << more.out;
  EXPECT_EQ(count(more.out, "SSIM score after training is"), 1U);
  EXPECT_EQ(more.err, "");
}

TEST_F(RunVideos, ThatCannotBeMadeAreRefusedBeforeTheFirstStep) {
  const std::vector<std::string> words{"train", "tiny.yml", "enable_generate_video_for_eval=true",
                                       "eval_every=2"};
  const auto with = [&](const std::string& word) {
    std::vector<std::string> all = words;
    all.push_back(word);
    return run(all);
  };
  with("prompt_file=absent.txt").expect_error("prompt_file absent.txt");
  with("use_magcache=true").expect_error("mag_ratios_base");
  with("image_url=absent.png").expect_error("absent.png");
  with("initial_latents=absent.safetensors").expect_error("absent.safetensors");
  EXPECT_FALSE(fs::exists(folder_ / "out/tiny/checkpoints/4"));
}

TEST_F(RunVideos, ThatFailOnTheWayDoNotEndTheRun) {
  fs::create_directories(folder_ / "out/tiny/samples");
  write("out/tiny/samples/2", "a file in the place of a folder");
  const Outcome outcome =
      run({"train", "tiny.yml", "enable_generate_video_for_eval=true", "eval_every=2"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("no videos after step 2: "));
  EXPECT_THAT(outcome.err, HasSubstr("out/tiny/samples/2"));
  EXPECT_TRUE(fs::exists(folder_ / "out/tiny/samples/4/contact_sheet.png"));
  EXPECT_TRUE(fs::exists(folder_ / "out/tiny/checkpoints/4/manifest.json"));
}

TEST_F(RunVideos, GiveWayToASignal) {
  // With this many sampling steps, the evaluation after the first step would not end.
  write("stop.sh", "cd " + quoted(folder_.string()) + "\n" +
                       quoted(std::string(KINEMA_BINARY_DIR) + "/kinema") +
                       " train tiny.yml enable_generate_video_for_eval=true eval_every=1 "
                       "num_inference_steps=1000 num_videos_per_prompt=1000 >.out 2>.err &\n"
                       "for i in $(seq 600); do grep -q 'step: 1' .out && break; sleep 0.1; done\n"
                       "sleep 0.5\nkill -TERM $!\nwait $!\n");
  const int stopped = std::system(("bash " + quoted((folder_ / "stop.sh").string())).c_str());

  EXPECT_EQ(WEXITSTATUS(stopped), 0) << read_text(folder_ / ".err");
  EXPECT_THAT(read_text(folder_ / ".out"), HasSubstr("stopped after 1 step:"));
  EXPECT_TRUE(fs::exists(folder_ / "out/tiny/checkpoints/1/manifest.json"));
  EXPECT_FALSE(fs::exists(folder_ / "out/tiny/samples/1/contact_sheet.png"));
}

TEST_F(RunVideos, OfAResumedRunThatKeptNoneAreComparedFromThere) {
  ASSERT_EQ(
      run({"train", "tiny.yml", "max_train_steps=2", "learning_rate_schedule_steps=4"}).status, 0);
  const Outcome more =
      run({"train", "tiny.yml", "enable_ssim=true", "learning_rate_schedule_steps=4"});
  ASSERT_EQ(more.status, 0) << more.err;
  EXPECT_THAT(more.err, HasSubstr("compares with the one after 2 steps"));
  EXPECT_THAT(more.out, HasSubstr("SSIM score after training is"));
}

}  // namespace
}  // namespace kinema::jobs_test
