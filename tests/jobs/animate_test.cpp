// `generate` with Wan-Animate: poses, faces, backgrounds and masks, in segments.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <deque>
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
using ::testing::HasSubstr;

class AnimateJobs : public RunsTest {
 protected:
  void SetUp() override {
    RunsTest::SetUp();
    fs::create_directory(folder_ / "driving");
    media::write_png(folder_ / "driving/src_ref.png", frames(1, 40, 56, 3));
    media::write_png(folder_ / "white.png", frames(1, 32, 48, 255));
    write_video("driving/src_pose.mp4", frames(8, 32, 48, 5));
    write_video("driving/src_face.mp4", frames(8, 40, 40, 7));
    write_video("background.mp4", frames(8, 32, 48, 11));
    write_video("mask.mp4", frames(8, 32, 48, 0));
    write_video("short.mp4", frames(3, 32, 48, 5));
  }
  /// Of one frame u8 [h, w, 3], else u8 [f, h, w, 3]; `step` 0 and 255: black and white halves,
  /// white.
  static HostArray frames(int64_t count, int64_t h, int64_t w, int64_t step) {
    HostArray out(Shape{DType::U8, count == 1 ? Dims{h, w, 3} : Dims{count, h, w, 3}});
    const auto values = out.as<uint8_t>();
    for (int64_t i = 0; i < std::ssize(values); ++i) {
      const bool is_left = i / 3 % w < w / 2;
      values[static_cast<size_t>(i)] = static_cast<uint8_t>(
          step == 255 || (step == 0 && is_left) ? 255
                                                : step * (i / 3 % w + i % 3 * 40 + i / (h * w)));
    }
    return out;
  }
  void write_video(const std::string& name, const HostArray& video) const {
    media::write_mp4(folder_ / name, video, {.fps = 30, .pixel_format = "yuv444p"});
  }
  Outcome generate(std::vector<std::string> words) {
    words.insert(words.begin(), {"generate", model_, "prompt=a dancer", "num_inference_steps=2",
                                 "contact_sheet=false", "seed=1", "segment_frame_length=5",
                                 "weights_dtype=float32", "activations_dtype=float32"});
    return run(words);
  }
  HostArray latents(const std::string& name, std::vector<std::string> words) {
    words.insert(words.end(), {"save_latents=" + name, "video_folder=v_" + name});
    const Outcome outcome = generate(words);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return io::SafetensorsFile::open(folder_ / name).at("latents").copy();
  }
  std::string error(std::vector<std::string> words) {
    const Outcome outcome = generate(std::move(words));
    EXPECT_EQ(outcome.status, 1);
    return outcome.err;
  }
  static double largest_difference(const HostArray& a, const HostArray& b) {
    double out = a.shape == b.shape ? 0.0 : INFINITY;
    for (size_t i = 0; out < INFINITY && i < a.as<float>().size(); ++i) {
      out = std::max(out, std::abs(static_cast<double>(a.as<float>()[i]) - b.as<float>()[i]));
    }
    return out;
  }

  std::string model_ = io::golden("animate/wan22_animate").string();
  const std::vector<std::string> driving_{"image=driving/src_ref.png",
                                          "pose_video=driving/src_pose.mp4",
                                          "face_video=driving/src_face.mp4"};
  std::vector<std::string> driven_by(std::vector<std::string> more) const {
    more.insert(more.begin(), driving_.begin(), driving_.end());
    return more;
  }
};

TEST_F(AnimateJobs, MakeSegmentsOfTheDrivingVideo) {
  const HostArray one = latents("one", driven_by({"num_frames=5"}));
  ASSERT_EQ(one.shape.dims, (Dims{1, 16, 2, 4, 6}));
  // Two segments of five frames that share one: the eighth frame is the last but one of the second.
  const HostArray two = latents("two", driving_);
  ASSERT_EQ(two.shape.dims, (Dims{1, 16, 4, 4, 6}));
  constexpr int64_t kFrame = 4 * 6;
  for (int64_t c = 0; c < 16; ++c) {
    const auto first = one.as<float>().subspan(static_cast<size_t>(c * 2 * kFrame), 2 * kFrame);
    const auto same = two.as<float>().subspan(static_cast<size_t>(c * 4 * kFrame), 2 * kFrame);
    EXPECT_TRUE(std::ranges::equal(first, same)) << "channel " << c;
  }
  const media::Video video = media::read_video(folder_ / "v_two/000_a_dancer.mp4");
  EXPECT_EQ(video.frames.shape.dims, (Dims{8, 32, 48, 3}));  // the size of the poses
  EXPECT_DOUBLE_EQ(video.fps, 30);                           // and their rate
  EXPECT_NE(
      latents("five", driven_by({"segment_frame_length=9", "prev_segment_conditioning_frames=5"}))
          .bytes,
      two.bytes);
}

TEST_F(AnimateJobs, FollowEachOfTheirFiles) {
  const HostArray plain = latents("plain", driven_by({"num_frames=5"}));
  EXPECT_EQ(latents("folder", {"animate_folder=driving", "num_frames=5"}).bytes, plain.bytes);
  EXPECT_EQ(latents("names", {"reference_image_path=driving/src_ref.png", "mode=animate",
                              "pose_video_path=driving/src_pose.mp4", "num_frames=5",
                              "face_video_path=driving/src_face.mp4"})
                .bytes,
            plain.bytes);
  const auto differs = [&](const std::string& name, const std::string& word) {
    EXPECT_NE(latents(name, {"animate_folder=driving", "num_frames=5", word}).bytes, plain.bytes)
        << word;
  };
  differs("picture", "image=white.png");
  differs("poses", "pose_video=background.mp4");
  differs("faces", "face_video=background.mp4");
  differs("guided", "guidance_scale=2");
}

TEST_F(AnimateJobs, AreConfiguredAsInMaxDiffusion) {
  const HostArray plain = latents("plain", driven_by({"height=32", "width=48"}));
  write("animate.yml", "pretrained_model_name_or_path: '" + model_ + R"('
model_name: wan2.2
model_type: 'I2V'
height: 32
width: 48
num_frames: 121
flow_shift: 3.0
fps: 30
negative_prompt: "blurred"
mode: "animate"
reference_image_path: "driving/src_ref.png"
pose_video_path: "driving/src_pose.mp4"
face_video_path: "driving/src_face.mp4"
background_video_path: ""
mask_video_path: ""
prev_segment_conditioning_frames: 1
motion_encode_batch_size: null
guidance_scale: 5.0
animate_guidance_scale: 1.0
)");
  model_ = "animate.yml";
  EXPECT_EQ(latents("configured", {}).bytes, plain.bytes);
}

TEST_F(AnimateJobs, ReplaceAPersonInSegments) {
  const HostArray animated = latents("animated", driving_);
  const HostArray replaced =
      latents("replaced", driven_by({"background_video=background.mp4", "mask_video=mask.mp4"}));
  EXPECT_EQ(replaced.shape.dims, animated.shape.dims);
  EXPECT_NE(replaced.bytes, animated.bytes);
  EXPECT_EQ(media::read_video(folder_ / "v_replaced/000_a_dancer.mp4").frames.shape.dims[0], 8);
  // A picture is the mask of all frames.
  EXPECT_NE(latents("white", driven_by({"background_video=background.mp4", "mask_video=white.png"}))
                .bytes,
            replaced.bytes);
  // Those of a folder.
  fs::copy(folder_ / "background.mp4", folder_ / "driving/src_bg.mp4");
  fs::copy(folder_ / "mask.mp4", folder_ / "driving/src_mask.mp4");
  EXPECT_EQ(latents("folder", {"animate_folder=driving", "mode=replace"}).bytes, replaced.bytes);
  EXPECT_EQ(latents("kept", {"animate_folder=driving", "mode=animate"}).bytes, animated.bytes);
}

TEST_F(AnimateJobs, ReadFilesWithTheNamesOfTheRelease) {
  const HostArray folder = latents("folder", driven_by({"num_frames=5"}));
  fs::create_directory(folder_ / "single");
  fs::copy(io::golden("animate/single/wan22_animate.safetensors"), folder_ / "single");
  fs::copy(fs::path(model_) / "transformer/config.json", folder_ / "single");
  const HostArray file =
      latents("file", driven_by({"num_frames=5",
                                 "wan_transformer_pretrained_model_name_or_path=single/"
                                 "wan22_animate.safetensors"}));
  // Its weights are float16: 2^-11 of each, in a network of some ten layers and two steps.
  EXPECT_LT(largest_difference(folder, file), 0.05);
  EXPECT_GT(largest_difference(folder, file), 0.0);
}

TEST_F(AnimateJobs, TakeLoraFilesWithTheNamesOfTheRelease) {
  // As the relighting LoRA of the release: also on the adapters, where keys and values are joined.
  constexpr int64_t kRank = 2;
  constexpr int64_t kWidth = 32;
  std::deque<HostArray> arrays;
  std::vector<io::TensorEntry> entries;
  const auto add = [&](const std::string& name, Dims dims) {
    HostArray& array = arrays.emplace_back(Shape{DType::F32, std::move(dims)});
    for (size_t i = 0; i < array.as<float>().size(); ++i) {
      array.as<float>()[i] = 0.2F * std::sin(static_cast<float>(3 * i + arrays.size()));
    }
    entries.push_back(io::TensorEntry::of("diffusion_model." + name, array));
  };
  for (const auto& [module, rows] : {std::pair<std::string, int64_t>{"blocks.0.self_attn.q", 32},
                                     {"face_adapter.fuser_blocks.1.linear1_kv", 64},
                                     {"face_adapter.fuser_blocks.0.linear2", 32}}) {
    add(module + ".lora_A.weight", {kRank, kWidth});
    add(module + ".lora_B.weight", {rows, kRank});
  }
  io::write_safetensors(folder_ / "relight.safetensors", entries, {});
  const std::vector<std::string> short_video = driven_by({"num_frames=5"});
  const HostArray plain = latents("plain", short_video);
  const HostArray merged =
      latents("merged", driven_by({"num_frames=5", "lora=relight.safetensors"}));
  const HostArray applied = latents(
      "applied", driven_by({"num_frames=5", "lora=relight.safetensors", "lora_mode=apply"}));
  EXPECT_GT(largest_difference(plain, merged), 1e-3);
  // The same sums in another order, in f32: values of some units through ten layers and two steps.
  EXPECT_LT(largest_difference(merged, applied), 1e-3);
}

TEST_F(AnimateJobs, NameWhatIsMissingOrDoesNotFit) {
  EXPECT_THAT(error({"image=driving/src_ref.png"}), HasSubstr("set pose_video=FILE"));
  EXPECT_THAT(error({"image=driving/src_ref.png", "pose_video=driving/src_pose.mp4"}),
              HasSubstr("set face_video=FILE"));
  EXPECT_THAT(error({"pose_video=driving/src_pose.mp4", "face_video=driving/src_face.mp4"}),
              HasSubstr("set image=FILE"));
  EXPECT_THAT(error(driven_by({"background_video=background.mp4"})),
              HasSubstr("background_video is given without mask_video"));
  EXPECT_THAT(error(driven_by({"mask_video=mask.mp4"})),
              HasSubstr("mask_video is given without the background_video"));
  EXPECT_THAT(error(driven_by({"mode=replace"})), HasSubstr("mode is replace"));
  EXPECT_THAT(error(driven_by({"mode=dance"})), HasSubstr("auto, animate, replace"));
  EXPECT_THAT(error(driven_by({"mode=animate", "background_video=background.mp4"})),
              HasSubstr("background_video is given, which belongs to mode=replace"));
  EXPECT_THAT(error({"image=driving/src_ref.png", "pose_video=driving/src_pose.mp4",
                     "face_video=short.mp4"}),
              HasSubstr("face_video has 3 frames, but pose_video 8"));
  EXPECT_THAT(error(driven_by({"num_frames=9"})), HasSubstr("has 8 frames, but num_frames is 9"));
  EXPECT_THAT(error(driven_by({"segment_frame_length=6"})),
              HasSubstr("segment_frame_length is 6, expected one more than a multiple of 4"));
  EXPECT_THAT(error(driven_by({"prev_segment_conditioning_frames=5"})),
              HasSubstr("below segment_frame_length=5"));
  EXPECT_THAT(error(driven_by({"height=40", "width=48"})), HasSubstr("expected a multiple of 16"));
  EXPECT_THAT(error(driven_by({"video=background.mp4"})), HasSubstr("video has no meaning"));
  EXPECT_THAT(error({"animate_folder=absent"}), HasSubstr("absent does not exist"));
  fs::remove(folder_ / "driving/src_face.mp4");
  EXPECT_THAT(error({"animate_folder=driving"}), HasSubstr("has no src_face.mp4"));
  EXPECT_THAT(error({"image=driving/src_ref.png", "pose_video=white.png", "face_video=short.mp4"}),
              HasSubstr("is the picture white.png, expected a video"));
  model_ = io::golden("control/wan21_t2v").string();
  EXPECT_THAT(error({"pose_video=short.mp4"}), HasSubstr("follows no poses and faces"));
}

}  // namespace
}  // namespace kinema::jobs_test
