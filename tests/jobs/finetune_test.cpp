// The README's section on fine-tuning, on tiny models: a folder of clips and one command.
#include <gmock/gmock.h>

#include <string>

#include "jobs/call_kinema.h"

namespace kinema::jobs_test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

class Finetune : public RunsTest {
 protected:
  Outcome train(const std::vector<std::string>& more) {
    const fs::path source(KINEMA_SOURCE_DIR);
    std::vector<std::string> words = {
        "train", (source / "configs/finetune.yml").string(), "run_name=kites",
        "train_data_dir=" + (source / "tests/golden/dataset").string(), "prompt=a red circle",
        "pretrained_model_name_or_path=" + (source / "tests/golden/wan21_t2v").string(),
        // The clips' sizes, but short clips for a fast test.
        "height=64", "width=64", "num_frames=17", "max_sequence_length=32",
        "num_inference_steps=2"};
    words.insert(words.end(), more.begin(), more.end());
    return run(words);
  }
};

TEST_F(Finetune, EncodesTrainsAndSamplesInOneCommand) {
  const Outcome first = train({"max_train_steps=3", "learning_rate_schedule_steps=4"});

  ASSERT_EQ(first.status, 0) << first.err;
  EXPECT_THAT(first.err, HasSubstr("encoded 12 clips and 12 captions, cached in outputs/encoded"));
  EXPECT_THAT(first.out, HasSubstr("completed step: 3,"));
  const fs::path folder = folder_ / "outputs/kites";
  EXPECT_TRUE(fs::exists(folder / "checkpoints/3/transformer/config.json"));
  EXPECT_TRUE(fs::exists(folder / "samples/3/contact_sheet.png"));

  const Outcome second = train({"max_train_steps=4"});
  ASSERT_EQ(second.status, 0) << second.err;
  EXPECT_THAT(second.err, Not(HasSubstr("encoded")));
  EXPECT_THAT(second.out, HasSubstr("resumed after step 3"));

  const Outcome sampled =
      run({"generate", "outputs/kites/config.yml", "prompt=a blue square", "--json"});
  ASSERT_EQ(sampled.status, 0) << sampled.err;
  EXPECT_TRUE(fs::exists(folder / "samples/4/000_a_blue_square.mp4"));
  // The pipeline's schedule, without a flow_shift of its own; also during training.
  EXPECT_TRUE(fs::exists(folder / "checkpoints/4/scheduler/scheduler_config.json"));
  for (const char* video :
       {"samples/3/000_a_red_circle.json", "samples/4/000_a_blue_square.json"}) {
    EXPECT_EQ(io::Json::read(folder / video).at("flow_shift").as_number(), 3) << video;
  }
  const Outcome converted = run({"convert", "outputs/kites/checkpoints/4/transformer", "kites",
                                 "--to", "diffusers", "--dtype", "bfloat16"});
  ASSERT_EQ(converted.status, 0) << converted.err;
  EXPECT_TRUE(fs::exists(folder_ / "kites/config.json"));
}

}  // namespace
}  // namespace kinema::jobs_test
