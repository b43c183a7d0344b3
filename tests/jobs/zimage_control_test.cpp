// `generate` with ControlNets of Z-Image, in folders and in files as they are published.
#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "io/scratch.h"
#include "jobs/call_kinema.h"
#include "kinema/core/host_array.h"
#include "kinema/io/model_folder.h"
#include "kinema/io/safetensors.h"
#include "kinema/media/image.h"

namespace kinema::jobs_test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

class ZImageControlNets : public RunsTest {
 protected:
  static constexpr int64_t kHeight = 64;
  static constexpr int64_t kWidth = 32;

  void SetUp() override {
    RunsTest::SetUp();
    HostArray square(Shape{DType::U8, {kHeight, kWidth, 3}});
    HostArray slope = square;
    for (int64_t i = 0; i < kHeight * kWidth * 3; ++i) {
      const int64_t row = i / 3 / kWidth;
      const int64_t column = i / 3 % kWidth;
      const bool inside = row > 20 && row < 40 && column > 8 && column < 24;
      square.as<uint8_t>()[i] = inside ? 255 : 0;
      slope.as<uint8_t>()[i] = static_cast<uint8_t>(4 * row);
    }
    media::write_png(folder_ / "square.png", square);
    media::write_png(folder_ / "slope.png", slope);
  }

  static fs::path folder_of(int version) {
    return io::golden("zimage/zimage_controlnet" + std::to_string(version));
  }
  static std::string net(int version) { return "controlnet=" + folder_of(version).string(); }

  /// The ControlNet as a file without a configuration, its tensors changed by `change`.
  std::string file_of(
      int version, const std::string& name,
      const std::function<void(const std::string& key, HostArray& value)>& change =
          [](const std::string&, HostArray&) {}) {
    const io::ModelFolder files = io::ModelFolder::open(folder_of(version));
    std::vector<std::string> names;
    std::vector<HostArray> arrays;
    for (const io::TensorView* tensor : files.tensors()) {
      names.push_back(tensor->name);
      arrays.push_back(tensor->copy());
      change(names.back(), arrays.back());
    }
    std::vector<io::TensorEntry> entries;
    for (size_t i = 0; i < names.size(); ++i) {
      entries.push_back(io::TensorEntry::of(names[i], arrays[i]));
    }
    fs::create_directories((folder_ / name).parent_path());
    io::write_safetensors(folder_ / name, entries);
    return "controlnet=" + name;
  }

  Outcome generate(std::vector<std::string> words, const std::string& model = "zimage_turbo") {
    words.insert(words.begin(),
                 {"generate", io::golden("zimage/" + model).string(), "prompt=a ball",
                  "num_inference_steps=2", "max_sequence_length=48", "contact_sheet=false",
                  "seed=1", "weights_dtype=float32", "activations_dtype=float32"});
    return run(words);
  }
  std::vector<float> latents(std::vector<std::string> words) {
    const std::string file = "l" + std::to_string(++files_);
    words.insert(words.end(),
                 {"save_latents=" + file, "video_folder=v_" + file,
                  "height=" + std::to_string(kHeight), "width=" + std::to_string(kWidth)});
    const Outcome outcome = generate(words);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    const HostArray made = io::SafetensorsFile::open(folder_ / file).at("latents").copy();
    const auto values = made.as<float>();
    return {values.begin(), values.end()};
  }
  static double distance(const std::vector<float>& a, const std::vector<float>& b) {
    EXPECT_EQ(a.size(), b.size());
    double most = 0.0;
    for (size_t i = 0; i < a.size(); ++i) {
      most = std::max(most, static_cast<double>(std::abs(a[i] - b[i])));
    }
    return most;
  }
  std::string error(const std::vector<std::string>& words,
                    const std::string& model = "zimage_turbo") {
    const Outcome outcome = generate(words, model);
    EXPECT_EQ(outcome.status, 1);
    return outcome.err;
  }

  int files_ = 0;
};

TEST_F(ZImageControlNets, AreFollowedByTheirScalesAndSteps) {
  const auto plain = latents({});
  for (const int version : {1, 2}) {
    SCOPED_TRACE(version);
    const auto square = latents({net(version), "control_image=square.png"});
    EXPECT_GT(distance(plain, square), 1e-2);
    EXPECT_GT(distance(square, latents({net(version), "control_image=slope.png"})), 1e-3);
    EXPECT_GT(
        distance(square, latents({net(version), "control_image=square.png", "control_kind=canny"})),
        1e-4);
    EXPECT_EQ(plain, latents({net(version), "control_image=square.png", "control_scale=0"}));
    const auto first = latents({net(version), "control_image=square.png", "control_end=0.5"});
    EXPECT_GT(distance(first, plain), 1e-3);
    EXPECT_GT(distance(first, square), 1e-3);
  }
}

TEST_F(ZImageControlNets, AreTheSameInAFile) {
  for (const int version : {1, 2}) {
    const std::string file = file_of(version, "file" + std::to_string(version) + ".safetensors");
    EXPECT_EQ(latents({net(version), "control_image=square.png"}),
              latents({file, "control_image=square.png"}));
  }
  for (const auto& [file, words] :
       {std::pair{"file1.safetensors", "version 1, hints behind 2 layers"},
        {"file2.safetensors", "version 2.1, hints behind 1 layers"}}) {
    const Outcome inspected = run({"inspect", "--check", file});
    EXPECT_EQ(inspected.status, 0) << inspected.err;
    EXPECT_THAT(inspected.out, AllOf(HasSubstr("Z-Image ControlNet"), HasSubstr(words),
                                     HasSubstr("control_image=FILE")));
  }
}

// Version 2.0 was published with a refiner whose first projection is zero and which is not run: the
// control layers run in its place.
TEST_F(ZImageControlNets, RunTheControlLayersWhereTheRefinerWasNotTrained) {
  const std::string idle =
      file_of(2, "idle/file.safetensors", [](const std::string& key, HostArray& value) {
        if (key == "control_noise_refiner.0.before_proj.weight") {
          std::ranges::fill(value.bytes, std::byte{0});
        } else if (key.starts_with("control_noise_refiner.")) {
          std::ranges::fill(value.as<float>(), 7.0F);  // would be seen
        }
      });
  const auto by_layers = latents({idle, "control_image=square.png"});
  EXPECT_GT(distance(by_layers, latents({net(2), "control_image=square.png"})), 1e-3);
  // A folder of diffusers says so in its configuration.
  fs::create_directories(folder_ / "layers");
  io::Json config = io::Json::read(folder_of(2) / "config.json");
  config.set("add_control_noise_refiner", "control_layers");
  write("layers/config.json", config.dump());
  const io::ModelFolder files = io::ModelFolder::open(folder_of(2));
  std::vector<HostArray> arrays;
  std::vector<io::TensorEntry> entries;
  for (const io::TensorView* tensor : files.tensors()) {
    if (!tensor->name.starts_with("control_noise_refiner.")) {
      arrays.push_back(tensor->copy());
    }
  }
  size_t next = 0;
  for (const io::TensorView* tensor : files.tensors()) {
    if (!tensor->name.starts_with("control_noise_refiner.")) {
      entries.push_back(io::TensorEntry::of(tensor->name, arrays[next++]));
    }
  }
  io::write_safetensors(folder_ / "layers" / "diffusion_pytorch_model.safetensors", entries);
  EXPECT_EQ(by_layers, latents({"controlnet=layers", "control_image=square.png"}));
  EXPECT_THAT(run({"inspect", "--check", "idle/file.safetensors"}).out, HasSubstr("version 2.0"));
}

TEST_F(ZImageControlNets, SeeWhatIsKeptOfAPicture) {
  const std::string start = "image=slope.png";
  const std::string mask = "mask=square.png";
  for (const int version : {1, 2}) {
    SCOPED_TRACE(version);
    const std::string control = "control_image=square.png";
    const auto from_noise = latents({net(version), control});
    const auto from_image = latents({net(version), control, start, "strength=0.5"});
    const auto filled = latents({net(version), control, start, mask});
    EXPECT_GT(distance(from_image, from_noise), 1e-2);
    EXPECT_GT(distance(filled, from_noise), 1e-3);
    // Version 1 is inpainting, which keeps the picture's latents where it is black.
    EXPECT_GT(distance(filled, latents({start, mask})), 1e-3);
  }
}

TEST_F(ZImageControlNets, WorkWithAdaptersAndGuidance) {
  const std::string lora =
      "lora=" + io::golden("zimage/lora/zimage_aitoolkit.safetensors").string();
  const auto both = latents({net(2), "control_image=square.png", lora});
  EXPECT_GT(distance(both, latents({net(2), "control_image=square.png"})), 1e-4);
  EXPECT_GT(distance(both, latents({lora})), 1e-3);
  // f32 sums in another order.
  EXPECT_LT(distance(latents({net(2), "control_image=square.png", "guidance_scale=2"}),
                     latents({net(2), "control_image=square.png", "guidance_scale=2",
                              "guidance_in_two_passes=true"})),
            1e-4);
}

TEST_F(ZImageControlNets, NameWhatDoesNotFit) {
  EXPECT_THAT(error({net(1)}), HasSubstr("without a picture to follow"));
  EXPECT_THAT(error({net(1), "control_image=[square.png, slope.png]"}),
              HasSubstr("follows one picture"));
  EXPECT_THAT(error({net(1), "control_image=square.png", "control_type=1"}),
              HasSubstr("recognises the kind of its picture"));
  EXPECT_THAT(error({net(1), "control_image=square.png", "guess_mode=true"}),
              HasSubstr("guess_mode is for ControlNets of Stable Diffusion"));
  EXPECT_THAT(error({net(1), "control_image=square.png", "control_scale=[1, 2, 3]"}),
              HasSubstr("control_scale has 3 numbers"));
  EXPECT_THAT(error({net(1), "control_image=square.png"}, "zimage"),
              AllOf(HasSubstr("is 24, but the transformer's is 48"), HasSubstr("another model")));
  EXPECT_THAT(error({file_of(1, "file.safetensors"), "control_image=square.png"}, "zimage"),
              AllOf(HasSubstr("has width 24"), HasSubstr("but the transformer 48")));
  EXPECT_THAT(error({net(1), "control_image=square.png"}, "../control/sdxl"),
              AllOf(HasSubstr("is a ControlNet of Z-Image"), HasSubstr("Stable Diffusion XL")));
  EXPECT_THAT(error({"controlnet=" + io::golden("control/sdxl_controlnet1").string(),
                     "control_image=square.png"}),
              HasSubstr("the ControlNet is for a network with"));
  EXPECT_THAT(error({"controlnet=" + io::golden("zimage/zimage_turbo/transformer").string(),
                     "control_image=square.png"}),
              HasSubstr("where a ControlNet was expected"));
  file_of(1, "narrow.safetensors", [](const std::string& key, HostArray& value) {
    if (key == "control_layers.0.after_proj.weight") {
      value = HostArray(Shape{DType::F32, {24, 23}});
    }
  });
  EXPECT_THAT(error({"controlnet=narrow.safetensors", "control_image=square.png"}),
              AllOf(HasSubstr("control_layers.0.after_proj.weight"), HasSubstr("24,23")));
}

}  // namespace
}  // namespace kinema::jobs_test
