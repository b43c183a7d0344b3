// Training on images with the reference's tiny pipelines: I2V, TI2V, experts.
#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "jobs/call_kinema.h"
#include "kinema/io/json.h"

namespace kinema::jobs_test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

class ImageTrainingCommand : public RunsTest {
 protected:
  /// A configuration for one of the pipelines, on the reference's clips.
  void use(const std::string& pipeline, const std::string& more) {
    write("images.yml", "output_dir: out\nrun_name: run\npretrained_model_name_or_path: " +
                            golden_ + "/" + pipeline + "\ntrain_data_dir: " + golden_ +
                            "/dataset\ndataset_type: videos\nheight: 32\n"
                            "num_frames: 5\nweights_dtype: float32\nactivations_dtype: float32\n"
                            "per_device_batch_size: 2\nlearning_rate: 1e-3\nmax_train_steps: 2\n"
                            "learning_rate_schedule_steps: 2\nnum_inference_steps: 2\n"
                            "tfrecords_dir: records\nexecutable_cache: ../kinema_cli_programs\n" +
                            more);
  }
  Outcome train(std::vector<std::string> more) {
    more.insert(more.begin(), {"train", "images.yml"});
    return run(more);
  }
  Outcome generate(std::vector<std::string> more) {
    more.insert(more.begin(), {"generate", "images.yml", "prompt=a ball", "--json"});
    return run(more);
  }
  void expect_video(const Outcome& outcome) const {
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    const io::Json report = io::Json::parse(outcome.out, "stdout");
    EXPECT_TRUE(fs::exists(folder_ / report.at("videos").items().at(0).at("path").as_string()));
  }

  std::string golden_ = std::string(KINEMA_SOURCE_DIR) + "/tests/golden";
  std::string image_ = "image_url=" + golden_ + "/images/orientation_5.jpg";
};

TEST_F(ImageTrainingCommand, TrainsOnImagesThroughClip) {
  use("wan21_i2v", "model_type: I2V\nmax_sequence_length: 512\nwidth: 32\n");
  const Outcome whole = train({});
  ASSERT_EQ(whole.status, 0) << whole.err;
  EXPECT_THAT(whole.out, HasSubstr("image condition f32[2,20,2,4,4], image states f32[2,17,32]"));
  ASSERT_EQ(losses("run").size(), 2U);

  // In two parts, from records, and from cached encodings: the same losses, bit for bit.
  ASSERT_EQ(train({"run_name=parts", "max_train_steps=1"}).status, 0);
  const Outcome resumed = train({"run_name=parts"});
  EXPECT_THAT(resumed.out, HasSubstr("resumed after step 1")) << resumed.err;
  EXPECT_EQ(losses("parts"), losses("run"));
  const Outcome prepared = run({"prepare", "images.yml"});
  ASSERT_EQ(prepared.status, 0) << prepared.err;
  EXPECT_THAT(prepared.out, HasSubstr("image condition f32[20,2,4,4], image states f32[17,32]"));
  ASSERT_EQ(train({"run_name=records", "dataset_type=tfrecord", "train_data_dir=records"}).status,
            0);
  EXPECT_EQ(losses("records"), losses("run"));
  ASSERT_EQ(train({"run_name=kept", "dataset_save_location=kept"}).status, 0);
  EXPECT_EQ(losses("kept"), losses("run"));

  const std::string records = fs::directory_iterator(folder_ / "records")->path().string();
  EXPECT_EQ(run({"inspect", "--check", records}).status, 0);
  EXPECT_THAT(run({"inspect", records}).out, HasSubstr("encoder_hidden_states_image (f32[17,32])"));
  expect_video(generate({image_}));
  generate({}).expect_error("set image_url");

  run({"prepare", "images.yml", "model_type=T2V", "tfrecords_dir=other"})
      .expect_error("model_type=I2V prepares its image conditioning");
  train({"run_name=other", "model_type=T2V"}).expect_error("model_type=I2V trains it");
  train({"run_name=other", "max_sequence_length=96"}).expect_error("max_sequence_length=512");
  train({"run_name=other", "dataset_type=tfrecord",
         "train_data_dir=" + golden_ + "/dataset/tfrecords/train"})
      .expect_error("has no image condition, which this model is shown");
  train({"run_name=other", "model_type=T2V", "dataset_type=tfrecord", "train_data_dir=records",
         "pretrained_model_name_or_path=" + golden_ + "/wan21_t2v"})
      .expect_error("has an image condition, but this model makes videos of text alone");
}

TEST_F(ImageTrainingCommand, TrainsEitherExpertAtItsOwnTimesteps) {
  use("wan22_i2v", "model_type: I2V\nmax_sequence_length: 32\nwidth: 32\n");
  train({}).expect_error("set train_expert to high_noise, low_noise");
  train({"train_expert=low_noise", "max_timestep=950"})
      .expect_error("the low_noise expert is used at timesteps 0 to 900");
  train({"train_expert=high_noise", "min_timestep=500"})
      .expect_error("the high_noise expert is used at timesteps 900 to 1000");

  // An evaluation reads only the clips that it uses.
  fs::create_directory(folder_ / "held_out");
  for (const std::string name : {"a", "b", "c", "d", "e"}) {
    write("held_out/" + name + ".txt", "a ball");
    fs::copy(name == "e" ? golden_ + "/images/orientation_5.jpg"
                         : golden_ + "/dataset/videos/clip_00.mp4",
             folder_ / "held_out" / (name + ".mp4"));
  }
  const Outcome low =
      train({"train_expert=low_noise", "min_timestep=100", "eval_every=2", "eval_data_dir=held_out",
             "num_eval_samples=4", "timesteps_list=[500,950]"});
  ASSERT_EQ(low.status, 0) << low.err;
  EXPECT_THAT(low.out, HasSubstr("expert: low_noise, timesteps 100 to 900"));
  EXPECT_THAT(low.out, HasSubstr("mean eval loss for timestep 500"));
  EXPECT_THAT(low.out, Not(HasSubstr("timestep 950")));
  const fs::path checkpoint = folder_ / "out" / "run" / "checkpoints" / "2";
  EXPECT_TRUE(fs::exists(checkpoint / "transformer_2" / "config.json"));
  EXPECT_FALSE(fs::exists(checkpoint / "transformer"));
  EXPECT_EQ(run({"inspect", "--check", checkpoint.string()}).status, 0);
  expect_video(generate({"train_expert=low_noise", image_}));
  run({"generate", "images.yml", "pretrained_model_name_or_path=", "autoencoder=space_to_depth",
       "text_encoder=hashed", image_})
      .expect_error("contains only the low_noise expert");
  train({"train_expert=low_noise", "min_timestep=200", "max_train_steps=3"})
      .expect_error("min_timestep is 200, but the run");

  const Outcome high = train({"train_expert=high_noise", "run_name=high", "ema_decay=0.9"});
  ASSERT_EQ(high.status, 0) << high.err;
  EXPECT_TRUE(fs::exists(folder_ / "out/high/checkpoints/2/transformer_ema/config.json"));
  expect_video(generate({"train_expert=high_noise", "run_name=high", image_}));
}

TEST_F(ImageTrainingCommand, MakesVideosOfTheExpertThatIsTrainedAndTheOther) {
  use("wan22_i2v", "model_type: I2V\nmax_sequence_length: 32\nwidth: 32\n");
  const auto video = [&](const std::string& path) {
    const std::string bytes = read_text(folder_ / path);
    EXPECT_FALSE(bytes.empty()) << path;
    return bytes;
  };
  for (const std::string expert : {"high_noise", "low_noise"}) {
    const std::vector<std::string> words{"run_name=" + expert, "train_expert=" + expert, image_,
                                         "prompt=a ball", "num_inference_steps=8"};
    std::vector<std::string> training = words;
    training.insert(training.end(),
                    {"enable_generate_video_for_eval=true", "eval_every=1", "checkpoint_every=1",
                     "enable_ssim=true", "learning_rate=0.05"});
    const Outcome outcome = train(training);
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_THAT(outcome.out, HasSubstr("SSIM score after training is"));
    const std::string samples = "out/" + expert + "/samples/";
    for (const std::string step : {"1", "2"}) {
      std::vector<std::string> more = words;
      more.insert(more.end(),
                  {"generate_checkpoint_step=" + step, "video_folder=" + expert + step});
      expect_video(generate(more));
      EXPECT_EQ(video(samples + step + "/000_a_ball.mp4"),
                video(expert + step + "/000_a_ball.mp4"));
    }
    EXPECT_NE(video(samples + "0/000_a_ball.mp4"), video(samples + "2/000_a_ball.mp4"));
  }
}

TEST_F(ImageTrainingCommand, MakesNoVideosWithoutTheOtherExpert) {
  use("wan22_i2v", "model_type: I2V\nmax_sequence_length: 32\nwidth: 32\n");
  const fs::path half = folder_ / "half";
  fs::copy(golden_ + "/wan22_i2v", half, fs::copy_options::recursive);
  fs::remove_all(half / "transformer");
  const std::vector<std::string> words{"pretrained_model_name_or_path=half",
                                       "train_expert=low_noise", image_};
  EXPECT_EQ(train(words).status, 0);
  std::vector<std::string> videos = words;
  videos.insert(videos.end(), {"run_name=videos", "enable_ssim=true"});
  train(videos).expect_error("is not a pipeline with transformer/");
}

TEST_F(ImageTrainingCommand, TrainsTheModelOfFirstFramesAndText) {
  use("wan22_ti2v", "model_type: TI2V\nmax_sequence_length: 32\nwidth: 64\n");
  const Outcome outcome = train({});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  expect_video(generate({image_}));
  expect_video(generate({}));

  const Outcome text = train({"run_name=text", "model_type=T2V"});
  ASSERT_EQ(text.status, 0) << text.err;
  EXPECT_THAT(text.err, HasSubstr("model_type=T2V trains it on text only"));
  EXPECT_NE(losses("text"), losses("run"));
  ASSERT_EQ(train({"run_name=never", "first_frame_conditioning_p=0"}).status, 0);
  EXPECT_EQ(losses("never").at(0), losses("text").at(0));
  train({"run_name=other", "model_type=I2V"}).expect_error("none are for image conditioning");
  train({"run_name=other", "train_expert=high_noise"}).expect_error("has one transformer");
}

TEST_F(ImageTrainingCommand, PlansWhatItTrains) {
  const std::string tiny = std::string(KINEMA_SOURCE_DIR) + "/configs/tiny.yml";
  const auto bytes = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"plan", tiny, "target=cpu:1", "--json"});
    const Outcome outcome = run(more);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return io::Json::parse(outcome.out, "plan").at("bytes").at("arguments").as_int();
  };
  const int64_t plain = bytes({});
  // 48 channels of latents of 4 frames and 4x4 cells, f32, for 2 samples; 7 channels more, and the
  // additional parameters of the patch embedding with two moments.
  const int64_t condition = 2 * 7 * 4 * 4 * 4 * 4;
  const int64_t weights = 3 * 32 * 7 * 2 * 2 * 4;
  EXPECT_EQ(bytes({"model_type=I2V", "in_channels=55"}), plain + condition + weights);
  EXPECT_EQ(bytes({"model_type=TI2V"}), plain) << "the first frame is of the latents";
}

}  // namespace
}  // namespace kinema::jobs_test
