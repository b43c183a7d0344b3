#include "kinema/encoders/clip_encoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "arrays.h"
#include "cpu_isa.h"
#include "kinema/core/error.h"
#include "kinema/io/model_folder.h"
#include "kinema/networks/check_path.h"
#include "kinema/weights/clip.h"
#include "kinema/weights/weights.h"
#include "runtime/cpu_client.h"

namespace kinema::encoders {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

const fs::path kGolden = fs::path(KINEMA_SOURCE_DIR) / "tests" / "golden";
const fs::path kModel = kGolden / "wan21_i2v" / "image_encoder";
const fs::path kProcessor = kGolden / "wan21_i2v" / "image_processor";

class ClipTest : public runtime::CpuClientTest {
 protected:
  /// The golden model with its tensors renamed; an empty name omits the tensor.
  fs::path with_names(const std::function<std::string(const std::string&)>& rename,
                      const std::function<void(io::Json&)>& change = {}) const {
    const io::ModelFolder from = io::ModelFolder::open(kModel);
    std::vector<std::pair<std::string, HostArray>> tensors;
    for (const io::TensorView* tensor : from.tensors()) {
      if (const std::string name = rename(tensor->name); !name.empty()) {
        tensors.emplace_back(name, tensor->copy());
      }
    }
    std::vector<io::TensorEntry> entries;
    for (const auto& [name, array] : tensors) {
      entries.push_back(io::TensorEntry::of(name, array));
    }
    io::Json config = from.config();
    if (change) {
      change(config);
    }
    io::write_model_folder(folder(), config, entries, {.stem = "model"});
    return folder();
  }

  std::string problem_of(const fs::path& model) const {
    try {
      ClipEncoder(client(), model, kProcessor);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }
};

// The reference differs by 2e-6 from float64 on values up to 6; another summation order adds as
// much.
constexpr double kLimit = 2e-5;

TEST_F(ClipTest, TokensOfTheLastLayerButOneMatchTheReference) {
  const auto file = io::SafetensorsFile::open(kGolden / "io" / "image.safetensors");
  const ClipEncoder encoder(client(), kModel, kProcessor);
  for (const char* size : {"same", "larger", "smaller"}) {
    const std::string name = size;
    const HostArray tokens = encoder.encode(file.at(name + ".image").copy());
    EXPECT_EQ(tokens.shape.dims, (Dims{encoder.config().tokens(), encoder.config().hidden_size}));
    EXPECT_LE(largest_difference(tokens, file.at(name + ".image_embeds").copy()), kLimit) << size;
  }
}

TEST_F(ClipTest, KeysWithoutThePrefixAreTheSameModel) {
  const fs::path model = with_names([](const std::string& key) {
    EXPECT_TRUE(key.starts_with("vision_model."));
    return key.substr(std::string("vision_model.").size());
  });
  const auto file = io::SafetensorsFile::open(kGolden / "io" / "image.safetensors");
  const ClipEncoder encoder(client(), model, kProcessor);
  EXPECT_LE(largest_difference(encoder.encode(file.at("same.image").copy()),
                               file.at("same.image_embeds").copy()),
            kLimit);
}

TEST_F(ClipTest, QuickGeluIsAnotherFunctionThanGelu) {
  const fs::path model =
      with_names([](const std::string& key) { return key; },
                 [](io::Json& config) { config.set("hidden_act", "quick_gelu"); });
  const auto file = io::SafetensorsFile::open(kGolden / "io" / "image.safetensors");
  const ClipEncoder encoder(client(), model, kProcessor);
  // x sigmoid(1.702 x) differs by up to 0.02 from x Phi(x).
  EXPECT_GT(largest_difference(encoder.encode(file.at("same.image").copy()),
                               file.at("same.image_embeds").copy()),
            1e-4);
}

TEST_F(ClipTest, EveryTensorOfTheFileIsChecked) {
  // The last layer is not used, but a file without it is broken.
  EXPECT_THAT(problem_of(with_names([](const std::string& key) {
                return key == "vision_model.encoder.layers.2.mlp.fc1.bias" ? "" : key;
              })),
              HasSubstr("`vision_model.encoder.layers.2.mlp.fc1.bias` [64] is missing"));
  EXPECT_THAT(problem_of(with_names([](const std::string& key) {
                return key == "vision_model.post_layernorm.bias" ? "vision_model.other" : key;
              })),
              HasSubstr("post_layernorm.bias"));
}

TEST_F(ClipTest, SizesThatDoNotFitAreNamed) {
  EXPECT_THAT(problem_of(with_names([](const std::string& key) { return key; },
                                    [](io::Json& config) { config.set("image_size", 40); })),
              HasSubstr("position_embedding"));
  EXPECT_THAT(problem_of(with_names([](const std::string& key) { return key; },
                                    [](io::Json& config) { config.set("hidden_act", "relu"); })),
              HasSubstr("hidden_act` is `relu`"));
  EXPECT_THAT(
      problem_of(with_names([](const std::string& key) { return key; },
                            [](io::Json& config) { config.set("num_attention_heads", 3); })),
      HasSubstr("multiple of `num_attention_heads`"));
  EXPECT_THAT(problem_of(kGolden / "wan21_i2v" / "transformer"), HasSubstr("CLIPVisionModel"));
}

TEST_F(ClipTest, InspectSaysWhatTheFolderIs) {
  EXPECT_EQ(networks::check_path(kModel), "CLIPVisionModel: 3 layers, width 32");
}

}  // namespace
}  // namespace kinema::encoders
