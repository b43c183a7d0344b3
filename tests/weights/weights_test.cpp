#include "kinema/weights/weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "io/scratch.h"
#include "kinema/core/error.h"
#include "kinema/io/json.h"
#include "kinema/io/model_folder.h"
#include "kinema/models/wan/transformer.h"
#include "kinema/networks/check_path.h"
#include "networks/wan.h"
#include "pjrt/cpu_plugin.h"

namespace kinema::weights {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

void write(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

/// A valid config.json with one value replaced, or the key removed for an empty value.
std::string changed(const std::string& key, const std::string& value) {
  std::string text;
  const io::Json config = io::Json::read(io::golden("wan21_t2v/transformer/config.json"));
  for (const auto& [name, old] : config.members()) {
    if (name != key) {
      text += fmt::format("\"{}\": {},\n", name, old.dump(-1));
    } else if (!value.empty()) {
      text += fmt::format("\"{}\": {},\n", name, value);
    }
  }
  if (config.find(key) == nullptr) {
    text += fmt::format("\"{}\": {},\n", key, value);
  }
  text.resize(text.size() - 2);
  return "{" + text + "}";
}

TEST(ReadConfig, ReadsTheReferenceModels) {
  const wan::TransformerConfig t2v = wan_config(io::golden("wan21_t2v/transformer"));
  EXPECT_EQ(t2v.num_layers, 2);
  EXPECT_EQ(t2v.attention_head_dim, 32);
  EXPECT_EQ(t2v.image_dim, 0);
  const wan::TransformerConfig i2v = wan_config(io::golden("wan21_i2v/transformer"));
  EXPECT_EQ(i2v.image_dim, 32);
  EXPECT_EQ(i2v.added_kv_proj_dim, 64);
}

TEST(ReadConfig, IsTheInverseOfItsText) {
  const io::Scratch scratch;
  wan::TransformerConfig config = wan_config(io::golden("wan21_i2v/transformer"));
  config.pos_embed_seq_len = 34;
  config.eps = 1e-5;
  write(scratch / "config.json", wan::config_json(config).dump());

  EXPECT_EQ(wan_config(scratch.path()), config);
}

TEST(ReadConfig, NamesFileAndKeyOfWhatItRefuses) {
  const io::Scratch scratch;
  const auto refuses = [&](const std::string& key, const std::string& value, const char* why) {
    SCOPED_TRACE(key + ": " + value);
    write(scratch / "config.json", changed(key, value));
    EXPECT_THAT(
        [&] { wan_config(scratch.path()); },
        ThrowsMessage<Error>(AllOf(HasSubstr("config.json"), HasSubstr(key), HasSubstr(why))));
  };
  refuses("num_layers", "", "");
  refuses("num_layers", "1000000000000000000", "from 1 to 1000");
  refuses("num_layers", "99999999999999999999999", "");
  refuses("num_layers", "2.5", "");
  refuses("num_layers", "\"two\"", "two");
  refuses("num_layers", "null", "");
  refuses("num_attention_heads", "-1", "-1");
  refuses("eps", "0", "between 0 and 1");
  refuses("_class_name", "\"AutoencoderKLWan\"", "WanTransformer3DModel");
  refuses("qk_norm", "\"layer_norm\"", "rms_norm_across_heads");
  refuses("patch_size", "[1, 2]", "3");
  refuses("cross_attn_norm", "1", "");
  refuses("image_dim", "0", "positive or null");
  refuses("num_layer", "3", "not a key");
}

TEST(CheckPath, DecidesEveryModelFolderOfTheCorruptSet) {
  const io::Json cases = io::Json::read(io::golden("corrupt/cases.json"));
  int64_t decided = 0;
  for (const auto& [name, about] : cases.members()) {
    if (about.find("folder") == nullptr) {
      continue;
    }
    SCOPED_TRACE(name);
    ++decided;
    const auto folder = io::golden("corrupt/" + about.at("folder").as_string());
    if (about.at("refuse").is_string()) {
      continue;  // optional
    }
    if (about.at("refuse").as_bool()) {
      EXPECT_THROW(networks::check_path(folder), Error);
    } else {
      EXPECT_NO_THROW(networks::check_path(folder));
    }
  }
  EXPECT_GE(decided, 15);
}

TEST(CheckPath, DescribesAModel) {
  EXPECT_EQ(networks::check_path(io::golden("wan21_t2v/transformer")),
            "WanTransformer3DModel: 2 layers, width 64, 148224 parameters");
  EXPECT_NO_THROW(networks::check_path(io::golden("variants/transformer_sharded")));
}

TEST(CheckPath, NamesTheTensorAndHowManyMore) {
  EXPECT_THAT([] { networks::check_path(io::golden("corrupt/model_missing_tensor")); },
              ThrowsMessage<Error>(HasSubstr("`blocks.0.attn1.to_q.weight` [12,12] is missing")));
  EXPECT_THAT([] { networks::check_path(io::golden("corrupt/model_wrong_shape")); },
              ThrowsMessage<Error>(HasSubstr(
                  "`blocks.0.attn1.to_q.weight` is f32[12,11] but the config expects [12,12]")));
  EXPECT_THAT([] { networks::check_path(io::golden("corrupt/model_extra_tensor")); },
              ThrowsMessage<Error>(HasSubstr("`blocks.1.attn1.to_q.weight`")));
  EXPECT_THAT([] { networks::check_path(io::golden("corrupt/model_wrong_dtype")); },
              ThrowsMessage<Error>(HasSubstr("must be floating-point")));
  wan::TransformerConfig config = wan_config(io::golden("wan21_t2v/transformer"));
  config.ffn_dim = 96;
  const auto specs = wan::parameters(config, {});
  EXPECT_THAT([&] { check_folder(io::golden("wan21_t2v/transformer"), specs); },
              ThrowsMessage<Error>(HasSubstr("(5 more tensors are not as expected)")));
}

TEST(CheckPath, NamesTheModelOfAFileBesideTheConfigOfAnother) {
  const io::Scratch folder;
  const auto dev = io::golden("control/flux_dev/transformer");
  const auto control = io::golden("control/flux_control/transformer");
  const std::string weights = "diffusion_pytorch_model.safetensors";
  std::filesystem::copy(dev / "config.json", folder.path() / "config.json");
  std::filesystem::copy(control / weights, folder.path() / weights);
  EXPECT_THAT([&] { networks::check_path(folder.path()); },
              ThrowsMessage<Error>(AllOf(HasSubstr("`x_embedder.weight`"),
                                         HasSubstr("Flux Depth/Canny control"),
                                         HasSubstr("config.json of that model"))));
}

class WeightsTest : public pjrt::CpuTest {
 protected:
  wan::TransformerConfig config_ = wan_config(io::golden("wan21_t2v/transformer"));
};

TEST_F(WeightsTest, WritesBackEqualTensorsInShards) {
  const io::Scratch scratch;
  pjrt::Client client = pjrt::cpu_client();
  for (const bool scan : {true, false}) {
    SCOPED_TRACE(scan);
    const auto specs = wan::parameters(config_, {.scan_layers = scan});
    const auto buffers = load(io::golden("wan21_t2v/transformer"), specs, client);
    const auto folder = scratch / (scan ? "scanned" : "unrolled");

    save(folder, wan::config_json(config_), specs, buffers, {}, 200'000);

    const auto before = io::ModelFolder::open(io::golden("wan21_t2v/transformer"));
    const auto after = io::ModelFolder::open(folder);
    EXPECT_EQ(wan_config(folder), config_);
    EXPECT_GE(after.files().size(), 3U);
    ASSERT_EQ(after.tensors().size(), before.tensors().size());
    for (const io::TensorView* tensor : before.tensors()) {
      EXPECT_EQ(after.at(tensor->name).shape, tensor->shape) << tensor->name;
      EXPECT_TRUE(std::ranges::equal(after.at(tensor->name).bytes, tensor->bytes)) << tensor->name;
    }
  }
}

TEST_F(WeightsTest, WritesAnotherDtypeWhenAsked) {
  const io::Scratch scratch;
  pjrt::Client client = pjrt::cpu_client();
  const auto specs = wan::parameters(config_, {});
  save(scratch / "half", wan::config_json(config_), specs,
       load(io::golden("wan21_t2v/transformer"), specs, client), DType::BF16);

  const auto half = io::ModelFolder::open(scratch / "half");
  const auto full = io::ModelFolder::open(io::golden("wan21_t2v/transformer"));
  for (const io::TensorView* tensor : half.tensors()) {
    EXPECT_EQ(tensor->copy().bytes, convert(full.at(tensor->name).copy(), DType::BF16).bytes);
  }
}

TEST_F(WeightsTest, InitialisesAlikeScannedAndUnrolled) {
  pjrt::Client client = pjrt::cpu_client();
  const auto scanned = wan::parameters(config_, {.scan_layers = true});
  const auto unrolled = wan::parameters(config_, {.scan_layers = false});
  const auto stacks = initialise(scanned, 7, client);
  const auto singles = initialise(unrolled, 7, client);
  std::map<std::string, HostArray> by_key;
  for (size_t i = 0; i < unrolled.size(); ++i) {
    by_key[unrolled[i].name] = singles[i].to_host();
  }
  for (size_t i = 0; i < scanned.size(); ++i) {
    const HostArray stack = stacks[i].to_host();
    const auto bytes = static_cast<size_t>(scanned[i].layer_shape().bytes());
    for (int64_t layer = 0; layer < scanned[i].count(); ++layer) {
      const auto from = stack.bytes.begin() + static_cast<int64_t>(bytes) * layer;
      EXPECT_TRUE(std::equal(from, from + static_cast<int64_t>(bytes),
                             by_key.at(scanned[i].key(layer)).bytes.begin()))
          << scanned[i].key(layer);
    }
  }
}

struct Moments {
  double mean = 0.0;
  double deviation = 0.0;
  double largest = 0.0;
};

Moments moments(const HostArray& x) {
  Moments m;
  double squares = 0.0;
  const auto values = x.as<float>();
  for (const float v : values) {
    m.mean += v / static_cast<double>(values.size());
    squares += static_cast<double>(v) * v / static_cast<double>(values.size());
    m.largest = std::max(m.largest, std::abs(static_cast<double>(v)));
  }
  m.deviation = std::sqrt(squares - m.mean * m.mean);
  return m;
}

TEST_F(WeightsTest, DrawsWhatTheInitialiserSays) {
  pjrt::Client client = pjrt::cpu_client();
  const auto specs = wan::parameters(config_, {}, {.gate_bias = 0.5});
  const auto buffers = initialise(specs, 3, client);
  const auto find = [&](const std::string& name) {
    for (size_t i = 0; i < specs.size(); ++i) {
      if (specs[i].name == name) {
        return buffers[i].to_host();
      }
    }
    fail("no parameter {}", name);
  };
  // 2 x 64 x 64 values: the sample deviation of a uniform distribution is within 2 percent (3 sigma
  // are 1.5).
  const Moments q = moments(find("blocks.{}.attn1.to_q.weight"));
  const double bound = std::sqrt(6.0 / 128.0);
  EXPECT_LE(q.largest, bound);
  EXPECT_NEAR(q.deviation, bound / std::sqrt(3.0), 0.02 * bound);
  EXPECT_NEAR(q.mean, 0.0, 0.02 * bound);
  // 64 x 48 values of N(0, 0.02): 3 sigma of the deviation are 3.8 percent.
  EXPECT_NEAR(moments(find("condition_embedder.text_embedder.linear_1.weight")).deviation, 0.02,
              0.001);
  EXPECT_EQ(moments(find("proj_out.weight")).largest, 0.0);
  EXPECT_EQ(moments(find("blocks.{}.attn1.to_q.bias")).largest, 0.0);
  EXPECT_EQ(moments(find("blocks.{}.norm2.weight")).mean, 1.0);
  // Rows 2 and 5 are gates: N(0.5, 1/8), 128 values per row over the two layers.
  const HostArray table = find("blocks.{}.scale_shift_table");
  for (int64_t row = 0; row < 6; ++row) {
    double mean = 0.0;
    for (int64_t layer = 0; layer < 2; ++layer) {
      for (int64_t i = 0; i < 64; ++i) {
        mean += table.as<float>()[static_cast<size_t>((layer * 6 + row) * 64 + i)] / 128.0;
      }
    }
    EXPECT_NEAR(mean, row == 2 || row == 5 ? 0.5 : 0.0, 4.0 * 0.125 / std::sqrt(128.0)) << row;
  }
}

TEST_F(WeightsTest, OtherSeedsGiveOtherValues) {
  pjrt::Client client = pjrt::cpu_client();
  const auto specs = wan::parameters(config_, {});
  EXPECT_NE(initialise(specs, 1, client)[0].to_host().bytes,
            initialise(specs, 2, client)[0].to_host().bytes);
}

}  // namespace
}  // namespace kinema::weights
