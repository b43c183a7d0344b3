// Training and sampling of image models: the reference's tiny Flux, and the demo's UNet from
// scratch.
#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "jobs/call_kinema.h"
#include "kinema/config/config.h"
#include "kinema/io/json.h"

namespace kinema::jobs_test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

class PicturesCommand : public RunsTest {
 protected:
  /// A configuration on the middle frames of the reference's clips.
  void use(const std::string& more) {
    write("images.yml", "output_dir: out\nrun_name: run\ntrain_data_dir: " + golden_ +
                            "/dataset\ndataset_type: images\nresolution: 32\n"
                            "weights_dtype: float32\nactivations_dtype: float32\n"
                            "per_device_batch_size: 2\nlearning_rate: 1e-3\nmax_train_steps: 2\n"
                            "learning_rate_schedule_steps: 2\nnum_inference_steps: 2\n"
                            "tfrecords_dir: records\nexecutable_cache: ../kinema_cli_programs\n" +
                            more);
  }
  Outcome train(std::vector<std::string> more) {
    more.insert(more.begin(), {"train", "images.yml"});
    return run(more);
  }
  /// For a run without a completed step.
  Outcome refused(const std::string& key) { return train({key, "run_name=other"}); }
  void expect_trains(const std::string& name, std::vector<std::string> more = {}) {
    more.push_back("run_name=" + name);
    const Outcome outcome = train(more);
    ASSERT_EQ(outcome.status, 0) << outcome.err;
  }
  void expect_picture(std::vector<std::string> more) {
    more.insert(more.begin(), {"generate", "images.yml", "prompt=a ball", "--json"});
    const Outcome outcome = run(more);
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_THAT(outcome.err, Not(HasSubstr("video")));
    const io::Json report = io::Json::parse(outcome.out, "stdout");
    const fs::path made = report.at("videos").items().at(0).at("path").as_string();
    EXPECT_EQ(made.extension(), ".png");
    EXPECT_TRUE(fs::exists(folder_ / made));
  }
  /// In two parts, from records, and from cached encodings: the losses of `run`.
  void expect_the_same_however_it_is_read() {
    expect_trains("parts", {"max_train_steps=1"});
    expect_trains("parts");
    EXPECT_EQ(losses("parts"), losses("run"));
    ASSERT_EQ(run({"prepare", "images.yml"}).status, 0);
    expect_trains("records", {"dataset_type=tfrecord", "train_data_dir=records"});
    EXPECT_EQ(losses("records"), losses("run"));
    expect_trains("kept", {"dataset_save_location=kept"});
    EXPECT_EQ(losses("kept"), losses("run"));
  }

  std::string golden_ = std::string(KINEMA_SOURCE_DIR) + "/tests/golden";
  std::string shapes_ = std::string(KINEMA_SOURCE_DIR) + "/examples/shapes";
};

TEST_F(PicturesCommand, TrainAndSampleFlux) {
  use("pretrained_model_name_or_path: " + golden_ +
      "/flux_dev\nmax_sequence_length: 16\ncaption_dropout: 0.5\n");
  expect_trains("run");
  ASSERT_EQ(losses("run").size(), 2U);
  expect_the_same_however_it_is_read();
  expect_picture({});

  const std::string said = "no prompt is given: `A cat and a dog baking";
  EXPECT_THAT(run({"generate", "images.yml", "height=36"}).err, HasSubstr(said));
  EXPECT_THAT(run({"generate", "images.yml", "height=36", "prompt=a ball"}).err,
              Not(HasSubstr(said)));

  // The run's saved configuration is complete.
  const config::Config saved = config::load(folder_ / "out/run/config.yml").config;
  EXPECT_EQ(saved.generate.num_frames, 1);
  EXPECT_EQ(saved.generate.height, 32);

  EXPECT_THAT(train({"run_name=idle", "frame_stride=2", "max_sequence_length=16"}).err,
              HasSubstr("no effect: frame_stride (this model makes images)\n"));
  write("file", "no folder");
  refused("dataset_save_location=file/kept").expect_error("dataset_save_location=file/kept cannot");
  refused("num_frames=5").expect_error("this model makes images");
  refused("snr_gamma=5").expect_error("snr_gamma is for diffusions");
  refused("model_type=TI2V").expect_error("this is a text-to-image model");
  refused("height=32").expect_error("given without width");
  refused("resolution=36").expect_error("height is 36");
}

TEST_F(PicturesCommand, TrainAndSampleZImage) {
  use("pretrained_model_name_or_path: " + golden_ +
      "/zimage/zimage_turbo\nmax_sequence_length: 48\ncaption_dropout: 0.5\n");
  expect_trains("run");
  ASSERT_EQ(losses("run").size(), 2U);
  expect_the_same_however_it_is_read();
  expect_picture({});
  expect_picture({"image=" + golden_ + "/images/orientation_5.jpg", "strength=0.5"});

  // Turbo's defaults, and where other programs count otherwise.
  const std::string turbo = golden_ + "/zimage/zimage_turbo";
  const auto made = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"generate", turbo, "prompt=a ball", "height=32", "width=32",
                               "max_sequence_length=48"});
    const Outcome outcome = run(more);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return outcome.err;
  };
  EXPECT_THAT(made({"save_latents=a.safetensors"}), Not(HasSubstr("guidance_scale")));
  EXPECT_THAT(made({"num_inference_steps=9"}), HasSubstr("the 9 of the model's card are 8 here"));
  EXPECT_THAT(made({"guidance_scale=2", "num_inference_steps=1", "cfg_normalization=1"}),
              HasSubstr("3 in programs with u + g (c - u)"));
  EXPECT_THAT(
      run({"generate", turbo, "prompt=(a:1.2)", "prompt_syntax=a1111", "height=32", "width=32"})
          .err,
      HasSubstr("set prompt_syntax=plain"));
}

TEST_F(PicturesCommand, OfAPretrainedModelAreEvaluatedWithoutARun) {
  fs::create_directory(folder_ / "held_out");
  for (const std::string name : {"a", "b"}) {
    write("held_out/" + name + ".txt", "a ball");
    fs::copy(golden_ + "/images/orientation_5.jpg", folder_ / "held_out" / (name + ".jpg"));
  }
  const Outcome outcome =
      run({"evaluate", golden_ + "/flux_dev", "dataset_type=images", "eval_data_dir=held_out",
           "resolution=32", "max_sequence_length=16"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("mean loss over"));
}

TEST_F(PicturesCommand, ArePlannedWithTheGuidanceThatTheyAreMadeWith) {
  const auto planned = [&](const std::string& model, std::vector<std::string> more) {
    write("plan.yml", "pretrained_model_name_or_path: " + golden_ + "/" + model +
                          "\nresolution: 32\nmax_sequence_length: 16\n");
    more.insert(more.begin(), {"plan", "plan.yml", "target=cpu:1", "mode=generate"});
    const Outcome outcome = run(more);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return outcome.out;
  };
  EXPECT_THAT(planned("sdxl", {}), HasSubstr(", with guidance"));
  EXPECT_THAT(planned("sdxl", {"do_classifier_free_guidance=false"}),
              Not(HasSubstr("with guidance")));
  // Flux has the scale as an input, and a second pass only with a negative prompt.
  EXPECT_THAT(planned("flux_dev", {}), Not(HasSubstr("with guidance")));
  EXPECT_THAT(planned("flux_dev", {"negative_prompt=fog", "true_cfg_scale=3"}),
              HasSubstr(", with guidance"));
}

TEST_F(PicturesCommand, TrainAndSampleAUNetFromScratch) {
  use("pretrained_model_name_or_path: ''\nnetwork_config: " + shapes_ +
      "/unet.json\nautoencoder: space_to_depth\nspace_to_depth_block: 2\ntext_encoder: hashed\n"
      "max_sequence_length: 4\nsnr_gamma: 5.0\nnoise_offset: 0.1\nema_decay: 0.9\n"
      "prediction_type: v_prediction\ntimestep_bias: {strategy: later, multiplier: 2.0}\n");
  expect_trains("run");
  ASSERT_EQ(losses("run").size(), 2U);
  expect_the_same_however_it_is_read();

  // A checkpoint has its own sampling schedule.
  const fs::path checkpoint = folder_ / "out/run/checkpoints/2";
  EXPECT_TRUE(fs::exists(checkpoint / "unet/config.json"));
  EXPECT_TRUE(fs::exists(checkpoint / "unet_ema/config.json"));
  const io::Json scheduler = io::Json::read(checkpoint / "scheduler/scheduler_config.json");
  EXPECT_EQ(scheduler.at("prediction_type").as_string(), "v_prediction");
  expect_picture({});

  refused("training_shift=3").expect_error("training_shift is for rectified flows");
  refused("min_timestep=10").expect_error("timestep_bias");
  refused("timestep_bias={strategy: sometimes}").expect_error("none, later, earlier, range");
  refused("timestep_bias={portions: 1}").expect_error("timestep_bias has no `portions`");
}

}  // namespace
}  // namespace kinema::jobs_test
