// `train` of ControlNets, and what becomes of them.
#include <gmock/gmock.h>

#include <filesystem>
#include <string>
#include <vector>

#include "io/scratch.h"
#include "jobs/call_kinema.h"
#include "kinema/core/host_array.h"
#include "kinema/io/json.h"
#include "kinema/io/safetensors.h"
#include "kinema/media/image.h"

namespace kinema::jobs_test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

constexpr const char* kWeights = "diffusion_pytorch_model.safetensors";

class ControlNetTraining : public RunsTest {
 protected:
  void SetUp() override {
    RunsTest::SetUp();
    fs::create_directories(folder_ / "data");
    picture("a.png", 3);
    picture("b.png", 5);
    picture("edges_a.png", 7);
    picture("edges_b.png", 11);
    write("data/metadata.jsonl",
          R"({"file_name": "a.png", "text": "a ball", "conditioning_image": "edges_a.png"})"
          "\n"
          R"({"file_name": "b.png", "text": "a box", "conditioning_image": "edges_b.png"})");
    write("train.yml",
          "output_dir: out\nrun_name: run\ntrain_controlnet: new\n"
          "pretrained_model_name_or_path: " +
              sdxl() +
              "\ntrain_data_dir: data\ndataset_type: videos\nheight: 32\nwidth: 48\n"
              "weights_dtype: float32\nactivations_dtype: float32\n"
              "per_device_batch_size: 1\nlearning_rate: 1e-2\nmax_train_steps: 3\n"
              "adam_weight_decay: 0\n"
              "learning_rate_schedule_steps: 3\nwarmup_steps_fraction: 0\n"
              "tfrecords_dir: records\nexecutable_cache: ../kinema_cli_programs\n");
  }
  static std::string sdxl() { return io::golden("control/sdxl").string(); }

  void picture(const std::string& name, int factor) {
    HostArray out(Shape{DType::U8, {40, 60, 3}});
    for (size_t i = 0; i < out.bytes.size(); ++i) {
      out.as<uint8_t>()[i] = static_cast<uint8_t>(factor * static_cast<int>(i));
    }
    media::write_png(folder_ / "data" / name, out);
  }
  Outcome train(std::vector<std::string> more) {
    more.insert(more.begin(), {"train", "train.yml"});
    return run(more);
  }
  void expect_trained(std::vector<std::string> more) {
    const Outcome outcome = train(std::move(more));
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    told_ = outcome.out + outcome.err;
  }
  fs::path checkpoint(const std::string& run, int step) const {
    return folder_ / "out" / run / "checkpoints" / std::to_string(step);
  }
  /// Bytes of a parameter of the ControlNet in a checkpoint.
  std::vector<std::byte> saved(const std::string& run, int step, const std::string& name,
                               const std::string& part = "controlnet") const {
    return io::SafetensorsFile::open(checkpoint(run, step) / part / kWeights).at(name).copy().bytes;
  }
  static std::vector<std::byte> of_unet(const std::string& name) {
    return io::SafetensorsFile::open(fs::path(sdxl()) / "unet" / kWeights).at(name).copy().bytes;
  }
  std::vector<std::byte> latents(const std::vector<std::string>& words) {
    const std::string file = "l" + std::to_string(++files_);
    std::vector<std::string> all{"generate",
                                 "train.yml",
                                 "prompt=a ball",
                                 "num_inference_steps=3",
                                 "contact_sheet=false",
                                 "seed=1",
                                 "save_latents=" + file,
                                 "video_folder=v_" + file};
    all.insert(all.end(), words.begin(), words.end());
    const Outcome outcome = run(all);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return io::SafetensorsFile::open(folder_ / file).at("latents").copy().bytes;
  }

  std::string told_;
  int files_ = 0;
};

// The first step of a new one changes its outputs alone, which are zeros before.
TEST_F(ControlNetTraining, BeginsAsACopyOfTheEncoder) {
  expect_trained({"max_train_steps=1"});
  EXPECT_THAT(told_, HasSubstr("image condition f32[1,3,1,32,48]"));
  EXPECT_FALSE(fs::exists(checkpoint("run", 1) / "unet"));
  EXPECT_EQ(
      io::Json::read(checkpoint("run", 1) / "controlnet/config.json").at("_class_name").as_string(),
      "ControlNetModel");
  const std::string inner = "down_blocks.1.resnets.0.conv1.weight";
  EXPECT_EQ(saved("run", 1, inner), of_unet(inner));
  EXPECT_THAT(saved("run", 1, "controlnet_down_blocks.0.weight"), testing::Not(Each(std::byte{0})));
  expect_trained({"max_train_steps=2"});
  EXPECT_NE(saved("run", 2, inner), of_unet(inner));
}

TEST_F(ControlNetTraining, IsTheSameHoweverItsDataAreRead) {
  expect_trained({});
  expect_trained({"run_name=kept", "dataset_save_location=kept"});
  EXPECT_EQ(losses("kept"), losses("run"));
  ASSERT_EQ(run({"prepare", "train.yml"}).status, 0);
  expect_trained({"run_name=records", "dataset_type=tfrecord", "train_data_dir=records"});
  EXPECT_EQ(losses("records"), losses("run"));
  expect_trained({"run_name=parts", "max_train_steps=2", "ema_decay=0.5"});
  expect_trained({"run_name=parts", "ema_decay=0.5"});
  EXPECT_EQ(losses("parts"), losses("run"));
  expect_trained({"run_name=averaged", "ema_decay=0.5"});
  const std::string output = "controlnet_mid_block.weight";
  EXPECT_EQ(saved("parts", 3, output, "controlnet_ema"),
            saved("averaged", 3, output, "controlnet_ema"));
  EXPECT_NE(saved("parts", 3, output, "controlnet_ema"), saved("parts", 3, output));
}

// Its pictures in training are those that `generate` makes of the run, and of the ControlNet
// beside the model.
TEST_F(ControlNetTraining, IsSampledWithItsModel) {
  const std::string picture = "control_image=data/edges_a.png";
  expect_trained({"enable_generate_video_for_eval=true", "eval_every=3", "prompt=a ball",
                  "num_inference_steps=3", picture});
  EXPECT_FALSE(fs::is_empty(folder_ / "out/run/samples/3"));
  const auto of_run = latents({picture});
  const std::string net = "controlnet=" + (checkpoint("run", 3) / "controlnet").string();
  EXPECT_EQ(of_run, latents({"run_name=", net, picture}));
  EXPECT_NE(of_run, latents({"run_name="}));
  EXPECT_THAT(run({"generate", "train.yml", "prompt=x"}).err, HasSubstr("control_image=FILE"));
  const Outcome checked = run({"inspect", (folder_ / "out/run").string(), "--check"});
  EXPECT_EQ(checked.status, 0) << checked.err;
  // Another run goes on from it.
  expect_trained({"run_name=next",
                  "train_controlnet=" + (checkpoint("run", 3) / "controlnet").string(),
                  "max_train_steps=1", "learning_rate=0"});
  const std::string output = "controlnet_mid_block.weight";
  EXPECT_EQ(saved("next", 1, output), saved("run", 3, output));
  expect_trained({"run_name=from", "init_from=out/run", "max_train_steps=1", "learning_rate=0"});
  EXPECT_EQ(saved("from", 1, output), saved("run", 3, output));
}

TEST_F(ControlNetTraining, NamesWhatDoesNotFit) {
  train({"enable_lora=true"}).expect_error("trains a ControlNet alone");
  train({"train_controlnet=absent"}).expect_error("train_controlnet absent does not exist");
  train({"pretrained_model_name_or_path=" + io::golden("control/sdxl_inpaint9").string()})
      .expect_error("a mask or a picture beside the latents");
  train({"pretrained_model_name_or_path=" + io::golden("control/flux_dev").string(),
         "max_sequence_length=40"})
      .expect_error("Stable Diffusion 1, 2 and XL");
  train({"train_controlnet=" + io::golden("control/sdxl_controlnet_union").string()})
      .expect_error("of one kind are trained");
  write("data/metadata.jsonl", R"({"file_name": "a.png", "text": "a ball"})");
  EXPECT_THAT(train({"skip_bad_clips=false"}).err, HasSubstr("no `control` in its metadata"));
  expect_trained({"dataset_type=synthetic", "max_train_steps=1"});
  train({"train_controlnet=", "max_train_steps=2", "dataset_type=synthetic"})
      .expect_error("train_controlnet");
}

}  // namespace
}  // namespace kinema::jobs_test
