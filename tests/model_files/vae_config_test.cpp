#include "kinema/model_files/vae_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <string>

#include "kinema/core/error.h"
#include "kinema/io/model_folder.h"
#include "kinema/networks/check_path.h"
#include "kinema/weights/weights.h"

namespace kinema::model_files {
namespace {

namespace fs = std::filesystem;
using io::Json;
using testing::HasSubstr;

const fs::path kGolden = fs::path(KINEMA_SOURCE_DIR) / "tests" / "golden";

Json golden(const char* pipeline) { return Json::read(kGolden / pipeline / "vae" / "config.json"); }

std::string problem_of(const std::function<void()>& run) {
  try {
    run();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

/// The error for the Wan 2.1 config with one key changed.
std::string problem_with(const char* key, Json value) {
  Json json = golden("wan21_t2v");
  json.set(key, std::move(value));
  return problem_of([&] { parse_vae_config(Json::parse(json.dump(), "config.json")); });
}

TEST(VaeConfigFile, ReadsBothVersions) {
  const vae::Config first = parse_vae_config(golden("wan21_t2v"));
  const vae::Config second = parse_vae_config(golden("wan22_ti2v"));

  EXPECT_EQ(first.spatial(), 8);
  EXPECT_EQ(first.temporal(), 4);
  EXPECT_EQ(first.z_dim, 16);
  EXPECT_FALSE(first.is_residual);
  EXPECT_EQ(second.spatial(), 16);
  EXPECT_EQ(second.patch_size, 2);
  EXPECT_EQ(second.colours(), 3);
  EXPECT_TRUE(second.is_residual);
  EXPECT_NE(second.decoder_base_dim, second.base_dim);
}

TEST(VaeConfigFile, WrittenIsReadAgain) {
  for (const char* pipeline : {"wan21_t2v", "wan22_ti2v"}) {
    const vae::Config config = parse_vae_config(golden(pipeline));

    const Json again = Json::parse(vae_config_json(config).dump(), "again");

    EXPECT_EQ(parse_vae_config(again), config) << pipeline;
  }
}

// The published Wan 2.1 files have neither scale factors nor patches.
TEST(VaeConfigFile, KeysThatAreAbsentHaveTheReferencesDefaults) {
  const vae::Config config =
      parse_vae_config(Json::parse(R"({"_class_name": "AutoencoderKLWan"})", "published"));

  EXPECT_EQ(config.base_dim, 96);
  EXPECT_EQ(config.latents_mean.size(), 16U);
  EXPECT_DOUBLE_EQ(config.latents_std[15], 1.916);
  EXPECT_EQ(config.spatial(), 8);
}

TEST(VaeConfigFile, SaysWhatIsWrong) {
  EXPECT_THAT(problem_with("_class_name", "AutoencoderKL"), HasSubstr("`AutoencoderKL`"));
  EXPECT_THAT(problem_with("base_dims", 4), HasSubstr("`base_dims` is not a key of a Wan VAE"));
  EXPECT_THAT(problem_with("base_dim", "four"), HasSubstr("the string \"four\""));
  EXPECT_THAT(problem_with("patch_size", 0), HasSubstr("must be positive or null"));
  EXPECT_THAT(problem_with("scale_factor_spatial", 16), HasSubstr("make 8"));
  EXPECT_THAT(problem_with("scale_factor_temporal", 8), HasSubstr("make 4"));
  EXPECT_THAT(problem_with("z_dim", 8), HasSubstr("`latents_mean` has 16 values"));
  EXPECT_THAT(problem_of([] {
                parse_vae_config(Json::parse(
                    R"({"_class_name": "AutoencoderKLWan", "latents_mean": [NaN]})", "nan.json"));
              }),
              HasSubstr("nan.json is not JSON"));
}

class VaeFolder : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) / ("kinema_vae_folder_" + std::to_string(getpid()));
    fs::remove_all(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  /// The error for the golden VAE with its tensors renamed by `rename`.
  std::string problem(const std::function<std::string(const std::string&)>& rename) {
    const io::ModelFolder from = io::ModelFolder::open(kGolden / "wan22_ti2v" / "vae");
    std::vector<io::TensorEntry> entries;
    for (const io::TensorView* tensor : from.tensors()) {
      if (const std::string name = rename(tensor->name); !name.empty()) {
        entries.push_back(io::TensorEntry::of(name, *tensor));
      }
    }
    io::write_model_folder(folder_, from.config(), entries);
    return problem_of([&] { networks::check_path(folder_); });
  }

 private:
  fs::path folder_;
};

TEST_F(VaeFolder, IsCheckedTensorByTensor) {
  const auto same = [](const std::string& name) { return name; };
  EXPECT_EQ(problem(same), "");
  EXPECT_THAT(
      problem([](const std::string& name) { return name == "quant_conv.bias" ? "" : name; }),
      HasSubstr("`quant_conv.bias` [16] is missing"));
  EXPECT_THAT(problem([](const std::string& name) {
                return name == "quant_conv.bias" ? "quant_conv.offset" : name;
              }),
              HasSubstr("quant_conv.bias"));
}

TEST_F(VaeFolder, SaysWhatItIs) {
  EXPECT_THAT(networks::check_path(kGolden / "wan22_ti2v" / "vae"),
              HasSubstr("AutoencoderKLWan: 8 latent channels, 16 x 16 pixels a cell"));
}

}  // namespace
}  // namespace kinema::model_files
