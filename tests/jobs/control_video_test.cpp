// `generate` with control videos, masks and reference images (VACE), and modules laid over a
// network.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "io/scratch.h"
#include "jobs/call_kinema.h"
#include "kinema/core/host_array.h"
#include "kinema/io/json.h"
#include "kinema/io/safetensors.h"
#include "kinema/media/image.h"
#include "kinema/media/video.h"

namespace kinema::jobs_test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

class ControlVideos : public RunsTest {
 protected:
  void SetUp() override {
    RunsTest::SetUp();
    HostArray picture(Shape{DType::U8, {40, 56, 3}});
    for (size_t i = 0; i < picture.bytes.size(); ++i) {
      picture.as<uint8_t>()[i] = static_cast<uint8_t>(7 * i);
    }
    media::write_png(folder_ / "cat.png", picture);
    const std::string videos = io::golden("dataset/videos").string();
    clip_ = std::ranges::min(std::vector<fs::path>{fs::directory_iterator(videos), {}}).string();
    const media::Video given = media::read_video(fs::path(clip_));
    fps_ = "fps=" + std::to_string(std::lround(given.fps));
    HostArray mask(Shape{DType::U8, {given.frames.shape.dims[1], given.frames.shape.dims[2], 3}});
    std::fill(mask.bytes.begin(), mask.bytes.begin() + std::ssize(mask.bytes) / 2, std::byte{255});
    media::write_png(folder_ / "mask.png", mask);
  }
  Outcome generate(const std::string& model, std::vector<std::string> words) {
    words.insert(words.begin(),
                 {"generate", model, "prompt=a ball", "num_inference_steps=2", "height=32",
                  "width=48", "contact_sheet=false", "seed=1", "max_sequence_length=48", fps_,
                  "weights_dtype=float32", "activations_dtype=float32"});
    return run(words);
  }
  std::string vace() const { return io::golden("control/wan21_vace").string(); }
  /// The final latents of five frames.
  HostArray latents(const std::string& name, std::vector<std::string> words,
                    const std::string& model = "") {
    words.insert(words.end(), {"num_frames=5", "save_latents=" + name, "video_folder=v_" + name});
    const Outcome outcome = generate(model.empty() ? vace() : model, words);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return io::SafetensorsFile::open(folder_ / name).at("latents").copy();
  }
  std::string error(std::vector<std::string> words, const std::string& model = "") {
    const Outcome outcome = generate(model.empty() ? vace() : model, std::move(words));
    EXPECT_EQ(outcome.status, 1);
    return outcome.err;
  }
  /// The tensors of VACE's transformer whose names begin with `vace_`, or the others.
  std::vector<io::TensorEntry> tensors(bool of_branch) {
    file_.emplace_back(io::SafetensorsFile::open(fs::path(vace()) / "transformer" /
                                                 "diffusion_pytorch_model.safetensors"));
    std::vector<io::TensorEntry> out;
    for (const io::TensorView& tensor : file_.back().tensors()) {
      if (tensor.name.starts_with("vace_") == of_branch) {
        arrays_.push_back(tensor.copy());
        out.push_back(io::TensorEntry::of(tensor.name, arrays_.back()));
      }
    }
    return out;
  }

  std::string clip_;
  std::string fps_;
  std::vector<io::SafetensorsFile> file_;
  std::deque<HostArray> arrays_;
};

TEST_F(ControlVideos, AreFollowedByTheirScale) {
  const HostArray text = latents("text", {});
  EXPECT_EQ(text.shape.dims, (Dims{1, 16, 2, 4, 6}));
  const HostArray control = latents("control", {"control_video=" + clip_});
  EXPECT_NE(control.bytes, text.bytes);
  EXPECT_NE(latents("masked", {"control_video=" + clip_, "control_mask=mask.png"}).bytes,
            control.bytes);
  EXPECT_NE(latents("half", {"control_video=" + clip_, "control_scale=0.5"}).bytes, control.bytes);
  EXPECT_EQ(latents("ones", {"control_video=" + clip_, "control_scale=[1, 1]"}).bytes,
            control.bytes);
  // Without its results the branch has no effect.
  EXPECT_EQ(latents("off", {"control_video=" + clip_, "control_scale=0"}).bytes,
            latents("off_text", {"control_scale=0"}).bytes);
}

TEST_F(ControlVideos, MayBeMadeOfPictures) {
  const HostArray text = latents("text", {});
  const HostArray one = latents("one", {"reference_images=cat.png"});
  EXPECT_EQ(one.shape.dims, text.shape.dims);  // the reference's frame is dropped
  EXPECT_NE(one.bytes, text.bytes);
  const HostArray two = latents("two", {"reference_images=[cat.png, mask.png]"});
  EXPECT_EQ(two.shape.dims, text.shape.dims);
  EXPECT_NE(two.bytes, one.bytes);
  const HostArray first = latents("first", {"image_url=cat.png"});
  EXPECT_NE(first.bytes, text.bytes);
  EXPECT_NE(latents("last", {"image_url=cat.png", "last_image_url=mask.png"}).bytes, first.bytes);
  EXPECT_EQ(media::read_video(folder_ / "v_two/000_a_ball.mp4").frames.shape.dims[0], 5);
}

TEST_F(ControlVideos, NameWhatDoesNotFit) {
  const std::string control = "control_video=" + clip_;
  EXPECT_THAT(error({control, "num_frames=4001"}), HasSubstr("but num_frames is 4001"));
  // At its own rate a video has the frames that are in the file, and not one more.
  const media::VideoProbe probe = media::probe_video(clip_);
  EXPECT_THAT(error({control, fmt::format("num_frames={}", probe.frames + 1)}),
              AllOf(HasSubstr(fmt::format("has {} frames", probe.frames)),
                    HasSubstr(fmt::format("num_frames={} is", (probe.frames - 1) / 4 * 4 + 1))));
  EXPECT_THAT(error({control, "num_frames=5", "control_mask=cat.png"}),
              HasSubstr("expected the same numbers and sizes"));
  EXPECT_THAT(error({"control_mask=mask.png"}), HasSubstr("control_video"));
  EXPECT_THAT(error({control, "num_frames=5", "control_scale=[1, 1, 1]"}),
              HasSubstr("control_scale has 3 numbers, expected one for all or 2"));
  EXPECT_THAT(error({control, "num_frames=5", "image_url=cat.png"}),
              HasSubstr("control_video and a first frame are both given"));
  EXPECT_THAT(error({"control_video=cat.png"}), HasSubstr("is the picture cat.png"));
  EXPECT_THAT(error({"control_video=absent.mp4"}), HasSubstr("absent.mp4"));
  EXPECT_THAT(error({"video=" + clip_, "num_frames=5"}), HasSubstr("video"));
  const std::string plain = io::golden("control/wan21_t2v").string();
  EXPECT_THAT(error({control, "num_frames=5"}, plain), HasSubstr("follows no control video"));
  EXPECT_THAT(error({"control_scale=1"}, plain), HasSubstr("has no control branch"));
  EXPECT_THAT(error({"reference_images=cat.png"}, plain), HasSubstr("takes no reference picture"));
  write("broken.png", "no picture");
  EXPECT_THAT(error({"reference_images=broken.png"}), HasSubstr("broken.png"));
}

TEST_F(ControlVideos, ModulesAreLaidOverANetwork) {
  // VACE's transformer in two: a model for text to video, and a module.
  const fs::path base = folder_ / "base";
  fs::copy(vace(), base, fs::copy_options::recursive);
  fs::permissions(base / "model_index.json", fs::perms::owner_write, fs::perm_options::add);
  const auto rewrite = [](const fs::path& file, const std::vector<std::string>& without,
                          const std::string& class_name) {
    const io::Json old = io::Json::read(file);
    io::Json out = io::Json::object();
    for (const auto& [key, value] : old.members()) {
      if (std::ranges::count(without, key) == 0) {
        out.set(key, value);
      }
    }
    if (out.find("transformer") != nullptr) {
      out.set("transformer",
              io::Json::array({io::Json("diffusers"), io::Json("WanTransformer3DModel")}));
    }
    out.set("_class_name", class_name);
    std::ofstream(file) << out.dump();
  };
  rewrite(base / "model_index.json", {}, "WanPipeline");
  rewrite(base / "transformer" / "config.json", {"vace_layers", "vace_in_channels"},
          "WanTransformer3DModel");
  io::write_safetensors(base / "transformer" / "diffusion_pytorch_model.safetensors",
                        tensors(/*of_branch=*/false));
  std::vector<io::TensorEntry> branch = tensors(/*of_branch=*/true);
  io::write_safetensors(folder_ / "module.safetensors", branch);

  const std::vector<std::string> words{"control_video=" + clip_};
  const HostArray whole = latents("whole", words);
  const std::string model = base.string();
  EXPECT_EQ(
      latents("laid", {"control_video=" + clip_, "transformer_module=module.safetensors"}, model)
          .bytes,
      whole.bytes);
  EXPECT_THAT(error(words, model), HasSubstr("follows no control video"));
  EXPECT_THAT(error({"transformer_module=absent.safetensors"}, model), HasSubstr("does not exist"));
  EXPECT_THAT(error({"transformer_module=[module.safetensors, module.safetensors]"}, model),
              HasSubstr("the model has one transformer"));
  EXPECT_THAT(error({"transformer_module=" + model + "/transformer"}, model),
              HasSubstr("transformer_module"));
  EXPECT_THAT(error({"transformer_module=module.safetensors"}), HasSubstr("expected a module"));

  // Of another width.
  for (io::TensorEntry& entry : branch) {
    if (entry.name == "vace_patch_embedding.weight") {
      arrays_.emplace_back(Shape{DType::F32, {16, 96, 1, 2, 2}});
      entry = io::TensorEntry::of(entry.name, arrays_.back());
    }
  }
  io::write_safetensors(folder_ / "narrow.safetensors", branch);
  EXPECT_THAT(error({"transformer_module=narrow.safetensors"}, model),
              HasSubstr("the control branch has width 16"));
}

TEST_F(ControlVideos, NetworksHaveOriginalNamesToo) {
  const std::string from = vace() + "/transformer";
  fs::copy(fs::path(from) / "config.json", folder_ / "config.json");
  const Outcome outcome = run({"convert", from, "original.safetensors", "--to", "original"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_NE(io::SafetensorsFile::open(folder_ / "original.safetensors")
                .find("vace_blocks.0.after_proj.weight"),
            nullptr);
  const std::string control = "control_video=" + clip_;
  EXPECT_EQ(latents("original",
                    {control, "wan_transformer_pretrained_model_name_or_path=original.safetensors"})
                .bytes,
            latents("whole", {control}).bytes);
}

}  // namespace
}  // namespace kinema::jobs_test
