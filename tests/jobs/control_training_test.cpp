// Training on clips with the files that they are made from: Kontext's pairs, control videos of
// VACE.
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "io/scratch.h"
#include "jobs/call_kinema.h"
#include "kinema/core/host_array.h"
#include "kinema/io/safetensors.h"
#include "kinema/media/image.h"
#include "kinema/media/video.h"

namespace kinema::jobs_test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

class ControlTraining : public RunsTest {
 protected:
  void use(const std::string& pipeline, const std::string& more) {
    write("train.yml", "output_dir: out\nrun_name: run\npretrained_model_name_or_path: " +
                           io::golden("control/" + pipeline).string() +
                           "\ntrain_data_dir: data\ndataset_type: videos\nheight: 32\nwidth: 48\n"
                           "weights_dtype: float32\nactivations_dtype: float32\n"
                           "per_device_batch_size: 1\nlearning_rate: 1e-2\nmax_train_steps: 2\n"
                           "learning_rate_schedule_steps: 2\nwarmup_steps_fraction: 0\n"
                           "tfrecords_dir: records\nexecutable_cache: ../kinema_cli_programs\n" +
                           more);
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
  void picture(const std::string& name, int factor) {
    HostArray out(Shape{DType::U8, {40, 60, 3}});
    for (size_t i = 0; i < out.bytes.size(); ++i) {
      out.as<uint8_t>()[i] = static_cast<uint8_t>(factor * static_cast<int>(i));
    }
    media::write_png(folder_ / "data" / name, out);
  }
  /// Pairs of pictures, or pictures alone.
  void write_pairs(const std::string& field) {
    fs::create_directories(folder_ / "data");
    std::string list;
    for (const std::string name : {"a", "b"}) {
      picture(name + ".png", name == "a" ? 3 : 5);
      picture(name + "_before.png", name == "a" ? 7 : 11);
      list += R"({"file_name": ")" + name + R"(.png", "text": "make it red")";
      list += field.empty() ? "" : ", \"" + field + "\": \"" + name + "_before.png\"";
      list += "}\n";
    }
    write("data/metadata.jsonl", list);
  }

  std::string told_;
};

TEST_F(ControlTraining, KontextLearnsFromPairs) {
  use("flux_kontext",
      "max_sequence_length: 40\nenable_lora: true\nlora_rank: 2\nlora_init: gaussian\n");
  write_pairs("source");
  expect_trained({});
  EXPECT_THAT(told_, HasSubstr("image condition f32[1,6,1,4,6]"));
  // Cached, from records, and in two parts: the same losses.
  expect_trained({"run_name=kept", "dataset_save_location=kept"});
  EXPECT_EQ(losses("kept"), losses("run"));
  ASSERT_EQ(run({"prepare", "train.yml"}).status, 0);
  expect_trained({"run_name=records", "dataset_type=tfrecord", "train_data_dir=records"});
  EXPECT_EQ(losses("records"), losses("run"));
  expect_trained({"run_name=parts", "max_train_steps=1"});
  expect_trained({"run_name=parts"});
  EXPECT_EQ(losses("parts"), losses("run"));
  // diffusers' name of the field.
  write_pairs("conditioning_image");
  expect_trained({"run_name=named"});
  EXPECT_EQ(losses("named"), losses("run"));
  // Pictures of a subject are VACE's.
  write_pairs("reference");
  EXPECT_THAT(train({"run_name=subject", "skip_bad_clips=false"}).err,
              HasSubstr("`source` names it"));
  // Without the other picture the network is trained as for text to image.
  write_pairs("");
  fs::remove(folder_ / "data/a_before.png");
  fs::remove(folder_ / "data/b_before.png");
  expect_trained({"run_name=text"});
  EXPECT_NE(losses("text"), losses("run"));
}

// Masks are drawn anew at each position, and the same in every run.
TEST_F(ControlTraining, InpaintingModelsLearnFromRandomMasks) {
  write_pairs("");
  use("sdxl_inpaint9", "");
  expect_trained({});
  EXPECT_THAT(told_, HasSubstr("image condition f32[1,5,1,4,6]"));
  expect_trained({"run_name=parts", "max_train_steps=1"});
  expect_trained({"run_name=parts"});
  EXPECT_EQ(losses("parts"), losses("run"));
  // A mask that is given, or of the whole picture, is the same however it is read.
  expect_trained({"run_name=all", "training_masks=[all]"});
  EXPECT_NE(losses("all"), losses("run"));
  expect_trained({"run_name=kept", "training_masks=[all]", "dataset_save_location=kept"});
  EXPECT_EQ(losses("kept"), losses("all"));
  ASSERT_EQ(run({"prepare", "train.yml", "training_masks=[all]"}).status, 0);
  expect_trained({"run_name=records", "dataset_type=tfrecord", "train_data_dir=records"});
  EXPECT_EQ(losses("records"), losses("all"));
  train({"run_name=none", "training_masks=[blobs]"}).expect_error("strokes, boxes, all");
  write_pairs("control_mask");
  expect_trained({"run_name=given"});
  expect_trained({"run_name=given_too", "training_masks=[boxes]"});
  EXPECT_EQ(losses("given"), losses("given_too"));
  use("flux_fill", "max_sequence_length: 40\n");
  expect_trained({"run_name=fill"});
  EXPECT_THAT(told_, HasSubstr("image condition f32[1,70,1,4,6]"));
}

TEST_F(ControlTraining, FluxFollowsControlImages) {
  use("flux_control", "max_sequence_length: 40\n");
  write_pairs("conditioning_image");
  expect_trained({});
  EXPECT_THAT(told_, HasSubstr("image condition f32[1,6,1,4,6]"));
  expect_trained({"run_name=kept", "dataset_save_location=kept"});
  EXPECT_EQ(losses("kept"), losses("run"));
  write_pairs("");
  EXPECT_THAT(train({"run_name=none", "skip_bad_clips=false"}).err,
              HasSubstr("the clip has no `control`"));
}

TEST_F(ControlTraining, WanLearnsWhatIsBetweenTwoFrames) {
  use("wan21_flf2v", "max_sequence_length: 512\nnum_frames: 5\nmodel_type: I2V\n");
  fs::create_directories(folder_ / "data");
  const fs::path videos = io::golden("dataset/videos");
  std::vector<fs::path> clips{fs::directory_iterator(videos), {}};
  std::ranges::sort(clips);
  fs::copy_file(clips.at(0), folder_ / "data/a.mp4");
  write("data/a.txt", "a ball");
  expect_trained({});
  expect_trained({"run_name=kept", "dataset_save_location=kept"});
  EXPECT_EQ(losses("kept"), losses("run"));
  ASSERT_EQ(run({"prepare", "train.yml"}).status, 0);
  expect_trained({"run_name=records", "dataset_type=tfrecord", "train_data_dir=records"});
  EXPECT_EQ(losses("records"), losses("run"));
  train({"run_name=none", "num_frames=1"}).expect_error("num_frames is 1");
}

// LoRA on a video and the control video beside it; reference and first frame are not shown.
TEST_F(ControlTraining, WanFunLearnsToFollowVideos) {
  use("wan21_t2v",
      "max_sequence_length: 48\nnum_frames: 5\nenable_lora: true\nlora_rank: 2\n"
      "wan_transformer_pretrained_model_name_or_path: " +
          io::golden("control/fun/wan22_fun_control").string() + "\n");
  fs::create_directories(folder_ / "data");
  std::vector<fs::path> clips{fs::directory_iterator(io::golden("dataset/videos")), {}};
  std::ranges::sort(clips);
  fs::copy_file(clips.at(0), folder_ / "data/a.mp4");
  fs::copy_file(clips.at(0), folder_ / "data/poses.mp4");
  write("data/metadata.jsonl",
        R"({"file_name": "a.mp4", "text": "a ball", "control_file_path": "poses.mp4"})");
  expect_trained({});
  EXPECT_THAT(told_, HasSubstr("image condition f32[1,36,2,4,6]"));
}

TEST_F(ControlTraining, NamesControlFilesThatCannotBeUsed) {
  use("flux_kontext", "max_sequence_length: 40\n");
  write_pairs("source");
  fs::remove(folder_ / "data/b_before.png");
  EXPECT_THAT(train({}).err, AllOf(HasSubstr("metadata.jsonl:2"), HasSubstr("b_before.png")));
  write("data/b_before.png", "no picture");
  EXPECT_THAT(train({"skip_bad_clips=false"}).err, HasSubstr("b_before.png"));
  write("data/metadata.jsonl",
        R"({"file_name": "a.png", "text": "x", "source": "../../secret.png"})");
  EXPECT_THAT(train({}).err, HasSubstr("secret.png"));
}

TEST_F(ControlTraining, VaceIsTrainedInPartOrWhole) {
  use("wan21_vace", "max_sequence_length: 48\nnum_frames: 5\ntrained_modules: [vace_]\n");
  const fs::path videos = io::golden("dataset/videos");
  std::vector<fs::path> clips{fs::directory_iterator(videos), {}};
  std::ranges::sort(clips);
  fs::create_directories(folder_ / "data");
  fs::copy_file(clips.at(0), folder_ / "data/a.mp4");
  fs::copy_file(clips.at(0), folder_ / "data/poses.mp4");
  picture("subject.png", 3);
  write("data/metadata.jsonl",
        R"({"file_name": "a.mp4", "text": "a ball", "control": "poses.mp4"})");
  expect_trained({});
  EXPECT_THAT(told_, HasSubstr("image condition f32[1,96,2,4,6]"));
  const auto saved = [&](const std::string& run) {
    return io::SafetensorsFile::open(
        folder_ / "out" / run / "checkpoints/2/transformer/diffusion_pytorch_model.safetensors");
  };
  const auto before = io::SafetensorsFile::open(io::golden("control/wan21_vace") /
                                                "transformer/diffusion_pytorch_model.safetensors");
  const auto changed = [&](const io::SafetensorsFile& after, const std::string& name) {
    return after.at(name).copy().bytes != before.at(name).copy().bytes;
  };
  const io::SafetensorsFile part = saved("run");
  EXPECT_TRUE(changed(part, "vace_blocks.0.proj_out.weight"));
  EXPECT_TRUE(changed(part, "vace_patch_embedding.weight"));
  EXPECT_FALSE(changed(part, "blocks.0.attn1.to_q.weight"));
  EXPECT_FALSE(changed(part, "patch_embedding.weight"));
  expect_trained({"run_name=whole", "trained_modules=[]"});
  EXPECT_TRUE(changed(saved("whole"), "blocks.0.attn1.to_q.weight"));
  EXPECT_NE(losses("whole").back(), losses("run").back());

  // References are frames in front, of the condition and of the clip.
  write("data/metadata.jsonl",
        R"({"file_name": "a.mp4", "text": "a ball", "control": "poses.mp4", )"
        R"("reference": ["subject.png"]})");
  expect_trained({"run_name=referred"});
  EXPECT_THAT(told_, AllOf(HasSubstr("f32[1,16,3,4,6]"), HasSubstr("f32[1,96,3,4,6]")));

  train({"run_name=none", "trained_modules=[vacuum_]"}).expect_error("no parameter's name starts");
  train({"run_name=none", "enable_lora=true", "lora_rank=2"})
      .expect_error("lora_target_modules names its layers");

  // A control video of fewer frames.
  const media::Video video = media::read_video(folder_ / "data/a.mp4");
  HostArray fewer = video.frames;
  fewer.shape.dims[0] = 2;
  fewer.bytes.resize(static_cast<size_t>(fewer.shape.bytes()));
  media::write_mp4(folder_ / "data/poses.mp4", fewer, {.fps = video.fps});
  EXPECT_THAT(train({"run_name=none", "skip_bad_clips=false"}).err,
              HasSubstr("poses.mp4 has 2 frames"));
}

}  // namespace
}  // namespace kinema::jobs_test
