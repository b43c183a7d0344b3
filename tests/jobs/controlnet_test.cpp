// `generate` with ControlNets.
#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "io/scratch.h"
#include "jobs/call_kinema.h"
#include "kinema/core/host_array.h"
#include "kinema/io/model_folder.h"
#include "kinema/io/safetensors.h"
#include "kinema/media/image.h"
#include "kinema/model_files/names.h"

namespace kinema::jobs_test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

class ControlNets : public RunsTest {
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

  static std::string net(int number) {
    return "controlnet=" + io::golden("control/sdxl_controlnet" + std::to_string(number)).string();
  }
  Outcome generate(const std::string& model, std::vector<std::string> words) {
    words.insert(words.begin(), {"generate", io::golden("control/" + model).string(),
                                 "prompt=a ball", "num_inference_steps=3", "contact_sheet=false",
                                 "seed=1", "weights_dtype=float32", "activations_dtype=float32"});
    return run(words);
  }
  /// The latents of SDXL at the sizes of the pictures.
  std::vector<float> latents(std::vector<std::string> words) {
    const std::string file = "l" + std::to_string(++files_);
    words.insert(words.end(),
                 {"save_latents=" + file, "video_folder=v_" + file,
                  "height=" + std::to_string(kHeight), "width=" + std::to_string(kWidth)});
    const Outcome outcome = generate("sdxl", words);
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
  std::string error(const std::string& model, const std::vector<std::string>& words) {
    const Outcome outcome = generate(model, words);
    EXPECT_EQ(outcome.status, 1);
    return outcome.err;
  }

  int files_ = 0;
};

TEST_F(ControlNets, AreFollowedByTheirScalesAndSteps) {
  const auto plain = latents({});
  const auto square = latents({net(1), "control_image=square.png"});
  EXPECT_GT(distance(plain, square), 1e-2);
  EXPECT_GT(distance(square, latents({net(1), "control_image=slope.png"})), 1e-3);
  EXPECT_GT(distance(square, latents({net(1), "control_image=square.png", "control_scale=0.5"})),
            1e-3);
  // Nothing is added: neither by a factor of 0, nor in steps that do not exist.
  EXPECT_EQ(plain, latents({net(1), "control_image=square.png", "control_scale=0"}));
  EXPECT_EQ(plain,
            latents({net(1), "control_image=square.png", "control_start=0.1", "control_end=0.2"}));
  const auto first =
      latents({net(1), "control_image=square.png", "control_end=0.5", "control_scale=1"});
  EXPECT_GT(distance(first, plain), 1e-3);
  EXPECT_GT(distance(first, square), 1e-3);
}

TEST_F(ControlNets, GiveTheSameInTwoPassesAndWithKeptKeys) {
  // f32 sums in another order.
  constexpr double kRounding = 1e-4;
  for (const char* guess : {"guess_mode=false", "guess_mode=true"}) {
    const auto both = latents({net(1), "control_image=square.png", guess});
    EXPECT_LT(distance(both, latents({net(1), "control_image=square.png", guess,
                                      "guidance_in_two_passes=true"})),
              kRounding);
    EXPECT_LT(
        distance(both, latents({net(1), "control_image=square.png", guess, "use_kv_cache=true"})),
        kRounding);
  }
  EXPECT_GT(distance(latents({net(1), "control_image=square.png", "guess_mode=true"}),
                     latents({net(1), "control_image=square.png"})),
            1e-3);
}

TEST_F(ControlNets, AddUp) {
  const std::string two = "controlnet=[" + io::golden("control/sdxl_controlnet1").string() + "," +
                          io::golden("control/sdxl_controlnet2").string() + "]";
  const auto both = latents({two, "control_image=[square.png, slope.png]"});
  const auto first = latents({net(1), "control_image=square.png"});
  EXPECT_GT(distance(both, first), 1e-3);
  EXPECT_LT(distance(first, latents({two, "control_image=[square.png, slope.png]",
                                     "control_scale=[1, 0]"})),
            1e-4);
}

TEST_F(ControlNets, SeePicturesThatAreMadeHere) {
  std::vector<std::vector<float>> made;
  for (const char* kind : {"given", "canny", "tile", "blur", "grey"}) {
    made.push_back(
        latents({net(1), "control_image=square.png", std::string("control_kind=") + kind}));
  }
  for (size_t i = 1; i + 1 < made.size(); ++i) {
    EXPECT_GT(distance(made[0], made[i]), 1e-4) << i;
  }
  EXPECT_EQ(made[0], made.back()) << "it is grey already";
}

TEST_F(ControlNets, AreReadInOriginalNames) {
  const fs::path folder = io::golden("control/sdxl_controlnet1");
  const io::ModelFolder files = io::ModelFolder::open(folder);
  std::vector<std::string_view> keys;
  for (const io::TensorView* tensor : files.tensors()) {
    keys.push_back(tensor->name);
  }
  const model_files::Layout layout = model_files::layout_of(model_files::kControlNetNames, keys);
  std::vector<HostArray> arrays;
  std::vector<std::string> names;
  for (const io::TensorView* tensor : files.tensors()) {
    const auto original =
        model_files::original_key(model_files::kControlNetNames, tensor->name, layout);
    ASSERT_TRUE(original) << tensor->name;
    names.push_back("control_model." + original->name);
    arrays.push_back(tensor->copy());
  }
  std::vector<io::TensorEntry> entries;
  for (size_t i = 0; i < names.size(); ++i) {
    entries.push_back(io::TensorEntry::of(names[i], arrays[i]));
  }
  fs::create_directories(folder_ / "original");
  io::write_safetensors(folder_ / "original" / "control.safetensors", entries);
  fs::copy_file(folder / "config.json", folder_ / "original" / "config.json");
  EXPECT_EQ(latents({net(1), "control_image=square.png"}),
            latents({"controlnet=original/control.safetensors", "control_image=square.png"}));
  const Outcome inspected = run({"inspect", "--check", "original/control.safetensors"});
  EXPECT_EQ(inspected.status, 0) << inspected.err;
  EXPECT_THAT(inspected.out, AllOf(HasSubstr("ControlNet"), HasSubstr("control_image=FILE")));
}

TEST_F(ControlNets, NameWhatDoesNotFit) {
  EXPECT_THAT(
      error("sd15", {net(1), "control_image=square.png"}),
      AllOf(HasSubstr("the ControlNet is for a network with"), HasSubstr("of their own kind")));
  EXPECT_THAT(error("sdxl", {net(1)}), HasSubstr("without a picture to follow"));
  EXPECT_THAT(error("sdxl", {"control_image=square.png"}), HasSubstr("follows no control image"));
  EXPECT_THAT(error("sdxl", {"controlnet=absent", "control_image=square.png"}),
              HasSubstr("controlnet absent does not exist"));
  EXPECT_THAT(error("sdxl", {"controlnet=" + io::golden("control/sdxl/unet").string(),
                             "control_image=square.png"}),
              HasSubstr("where a ControlNet was expected"));
  EXPECT_THAT(error("sdxl", {net(1), "control_image=[square.png, slope.png]"}),
              HasSubstr("follows one picture"));
  EXPECT_THAT(error("sdxl", {net(1), "control_image=square.png", "control_scale=[1, 2]"}),
              HasSubstr("control_scale has 2 numbers"));
  EXPECT_THAT(
      error("sdxl", {net(1), "control_image=square.png", "control_start=0.7", "control_end=0.3"}),
      HasSubstr("expected 0 <= start < end <= 1"));
  EXPECT_THAT(error("sdxl", {net(1), "control_image=square.png", "control_kind=depth"}),
              AllOf(HasSubstr("is not made here"), HasSubstr("Depth Anything")));
  EXPECT_THAT(error("sdxl", {net(1), "control_image=square.png", "control_kind=cunny"}),
              HasSubstr("expected given, canny, tile, blur or grey"));
  EXPECT_THAT(error("sdxl", {net(1), "control_image=square.png", "control_type=1"}),
              HasSubstr("control_type is for union ControlNets"));
  EXPECT_THAT(error("sdxl", {net(1), "control_image=absent.png"}), HasSubstr("absent.png"));
}

}  // namespace
}  // namespace kinema::jobs_test
