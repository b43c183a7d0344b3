#include "kinema/weights/adapter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "arrays.h"
#include "io/scratch.h"
#include "kinema/core/error.h"
#include "kinema/io/json.h"
#include "kinema/models/wan/transformer.h"
#include "kinema/weights/convert_lora.h"
#include "networks/wan.h"
#include "weights/smallest.h"

namespace kinema::weights {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

std::vector<nn::ParamSpec> specs_of(bool image, bool scan, const nn::LowRanks& additions = {}) {
  nn::ModelOptions options;
  options.scan_layers = scan;
  options.low_ranks = additions;
  return wan::parameters(smallest_config(image, false), options);
}

nn::LowRanks modules(const std::vector<std::string>& targets, bool image = false,
                     bool scan = true) {
  return adapter_modules(specs_of(image, scan), targets, 4);
}

std::vector<std::string> keys(const nn::LowRanks& ranks) {
  std::vector<std::string> out;
  for (const auto& [module, rank] : ranks) {
    EXPECT_EQ(rank, 4);
    out.push_back(module);
  }
  return out;
}

TEST(AdapterModules, ArePresetsNamesAndPatterns) {
  EXPECT_THAT(
      keys(modules({"attention"})),
      ElementsAre("blocks.{}.attn1.to_k", "blocks.{}.attn1.to_out.0", "blocks.{}.attn1.to_q",
                  "blocks.{}.attn1.to_v", "blocks.{}.attn2.to_k", "blocks.{}.attn2.to_out.0",
                  "blocks.{}.attn2.to_q", "blocks.{}.attn2.to_v"));
  EXPECT_EQ(modules({"attention+ffn"}).size(), 10U);
  EXPECT_EQ(modules({"attention"}, /*image=*/true).size(), 10U);  // keys and values of the image
  EXPECT_EQ(modules({"attention+ffn"}, /*image=*/true).size(), 12U) << "not the image embedder's";
  EXPECT_TRUE(modules({"all"}).contains("proj_out"));
  EXPECT_TRUE(modules({"all"}).contains("condition_embedder.time_proj"));
  EXPECT_FALSE(modules({"all"}).contains("patch_embedding"));  // a convolution
  EXPECT_THAT(keys(modules({"attn2.to_q", "ffn.net.2"})),
              ElementsAre("blocks.{}.attn2.to_q", "blocks.{}.ffn.net.2"));
  EXPECT_THAT(keys(modules({R"(blocks\.\d+\.attn1\.to_[qk])"})),
              ElementsAre("blocks.{}.attn1.to_k", "blocks.{}.attn1.to_q"));
}

TEST(AdapterModules, SelectLayersOnlyIfLayersAreNotStacked) {
  EXPECT_THAT(keys(modules({R"(blocks\.1\.attn1\.to_q)"}, false, /*scan=*/false)),
              ElementsAre("blocks.1.attn1.to_q"));
  EXPECT_THAT(
      [] { modules({R"(blocks\.1\.attn1\.to_q)"}); },
      ThrowsMessage<Error>(AllOf(HasSubstr("1 of the 2 layers"), HasSubstr("scan_layers=false"))));
  EXPECT_THAT([] { modules({"to_query"}); }, ThrowsMessage<Error>(HasSubstr("an existing one is")));
}

TEST(FreezeBase, LeavesTheNetworkAsItIs) {
  AdapterConfig config{.rank = 4, .alpha = 2, .modules = modules({"to_q"})};
  std::vector<nn::ParamSpec> specs = specs_of(false, true, config.modules);
  freeze_base(specs, config);
  for (const nn::ParamSpec& spec : specs) {
    const bool factor = spec.name.find(".lora_A") != std::string::npos ||
                        spec.name.find(".lora_B") != std::string::npos;
    EXPECT_EQ(spec.trained, factor) << spec.name;
    EXPECT_TRUE(!factor || spec.shape.dtype == DType::F32);
  }
  EXPECT_DOUBLE_EQ(config.scale(), 0.5);
  config.use_rslora = true;
  EXPECT_DOUBLE_EQ(config.scale(), 1.0);
}

/// The contents of an adapter's folder, and how it is read.
class SavedAdapter : public ::testing::Test {
 protected:
  SavedAdapter() {
    config_.modules = modules({"to_q", "ffn.net.2"});
    std::vector<nn::ParamSpec> specs = specs_of(false, true, config_.modules);
    freeze_base(specs, config_);
    std::ranges::copy_if(specs, std::back_inserter(factors_),
                         [](const nn::ParamSpec& spec) { return spec.trained; });
    for (size_t i = 0; i < factors_.size(); ++i) {
      arrays_.push_back(normal(factors_[i].shape.dims, i));
    }
    save_adapter(scratch_ / "adapter", config_, factors_, [this](size_t i) { return arrays_[i]; });
  }

  io::Scratch scratch_;
  AdapterConfig config_{.rank = 4, .alpha = 6, .use_rslora = true, .base_model = "org/model"};
  std::vector<nn::ParamSpec> factors_;
  std::vector<HostArray> arrays_;
};

TEST_F(SavedAdapter, IsReadBackWithItsScale) {
  const Lora lora = Lora::open(scratch_ / "adapter");
  EXPECT_TRUE(lora.unknown().empty());
  EXPECT_EQ(lora.targets().size(), 2U * 3);  // two layers of attn1.to_q, attn2.to_q, ffn.net.2
  for (const auto& [module, target] : lora.targets()) {
    EXPECT_EQ(target.rank(), 4) << module;
    EXPECT_DOUBLE_EQ(target.factor, 6 / std::sqrt(4.0)) << module;
  }
  const auto found = lora.targets().find("blocks.1.attn1.to_q");
  ASSERT_NE(found, lora.targets().end());
  const auto at = std::ranges::find_if(factors_, [](const nn::ParamSpec& spec) {
    return spec.name == "blocks.{}.attn1.to_q.lora_A.weight";
  });
  const HostArray& stack = arrays_[static_cast<size_t>(at - factors_.begin())];
  const HostArray layer = found->second.down->copy();
  const size_t size = layer.as<float>().size();
  EXPECT_TRUE(std::ranges::equal(layer.as<float>(), stack.as<float>().subspan(size, size)));
  const UniformRank uniform =
      uniform_rank({.lora = std::make_shared<const Lora>(Lora::open(scratch_ / "adapter"))});
  EXPECT_EQ(uniform.rank, 4);
  EXPECT_DOUBLE_EQ(uniform.factor, 3);
}

TEST_F(SavedAdapter, HasPeftsConfiguration) {
  const io::Json json = io::Json::read(scratch_ / "adapter" / kPeftConfig);
  EXPECT_EQ(json.at("peft_type").as_string(), "LORA");
  EXPECT_EQ(json.at("r").as_int(), 4);
  EXPECT_EQ(json.at("lora_alpha").as_number(), 6);
  EXPECT_TRUE(json.at("use_rslora").as_bool());
  EXPECT_EQ(json.at("base_model_name_or_path").as_string(), "org/model");
  EXPECT_EQ(json.at("target_modules").items().size(), 6U);
}

TEST_F(SavedAdapter, KeepsItsScaleInOtherFormats) {
  for (const LoraFormat to :
       {LoraFormat::COMFYUI, LoraFormat::KOHYA, LoraFormat::ORIGINAL, LoraFormat::DIFFUSERS}) {
    const std::filesystem::path file =
        scratch_ / fmt::format("{}.safetensors", static_cast<int>(to));
    convert_lora(scratch_ / "adapter", file, to);
    const Lora lora = Lora::open(file);
    EXPECT_EQ(lora.targets().size(), 6U);
    for (const auto& [module, target] : lora.targets()) {
      // Their alpha is a float32 number.
      EXPECT_NEAR(target.factor, 3, 3 * 0x1p-24) << module;
    }
  }
}

/// The same for each kind: what is saved is read back into the same parameters.
class SavedKind : public testing::TestWithParam<nn::AdapterKind> {};

TEST_P(SavedKind, IsReadBackIntoItsParameters) {
  const io::Scratch scratch;
  // A LoKr of rank 4 has a whole second factor where that is small.
  AdapterConfig config{.rank = 4, .alpha = 6, .modules = modules({"to_q", "ffn.net.2"})};
  config.modules.kind = GetParam();
  config.modules.kronecker_factor = 2;
  std::vector<nn::ParamSpec> specs = specs_of(false, true, config.modules);
  freeze_base(specs, config);
  std::vector<nn::ParamSpec> factors;
  std::vector<HostArray> arrays;
  for (const nn::ParamSpec& spec : specs) {
    if (spec.trained) {
      factors.push_back(spec);
      arrays.push_back(normal(spec.shape.dims, arrays.size()));
    }
  }
  ASSERT_FALSE(factors.empty());
  save_adapter(scratch / "adapter", config, factors, [&](size_t i) { return arrays[i]; });
  EXPECT_EQ(adapter_module_names(factors).size(), 6U);

  const Adapter adapter{.lora = std::make_shared<const Lora>(Lora::open(scratch / "adapter"))};
  const UniformRank uniform = uniform_rank(adapter);
  EXPECT_EQ(uniform.kind, GetParam());
  const Adapters read(std::span(&adapter, 1), specs);
  for (size_t i = 0; i < factors.size(); ++i) {
    const auto size = static_cast<size_t>(factors[i].layer_shape().elements());
    for (int64_t layer = 0; layer < factors[i].count(); ++layer) {
      std::vector<float> values(size);
      read.add_to(factors[i].key(layer), values);
      EXPECT_TRUE(std::ranges::equal(
          values, arrays[i].as<float>().subspan(static_cast<size_t>(layer) * size, size)))
          << factors[i].key(layer);
    }
  }
  for (const nn::ParamSpec& spec : specs) {
    if (spec.name.ends_with(".lora_scale")) {
      std::vector<float> scale(1);
      if (spec.layer_shape().elements() > 1) {
        scale.resize(static_cast<size_t>(spec.layer_shape().elements()));
      }
      read.add_to(spec.key(0), scale);
      EXPECT_FLOAT_EQ(scale[0], static_cast<float>(spec.init.scale)) << spec.name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, SavedKind,
                         testing::Values(nn::AdapterKind::LORA, nn::AdapterKind::DORA,
                                         nn::AdapterKind::LOHA, nn::AdapterKind::LOKR),
                         [](const auto& info) { return std::string(kind_name(info.param)); });

TEST_F(SavedAdapter, OfTwoRanksCannotBeTrainedOn) {
  std::vector<io::TensorEntry> entries;
  const HostArray down = normal({2, 128}, 1);
  const HostArray up = normal({128, 2}, 2);
  const HostArray wide_down = normal({3, 128}, 3);
  const HostArray wide_up = normal({128, 3}, 4);
  entries.push_back(io::TensorEntry::of("transformer.blocks.0.attn1.to_q.lora_A.weight", down));
  entries.push_back(io::TensorEntry::of("transformer.blocks.0.attn1.to_q.lora_B.weight", up));
  entries.push_back(
      io::TensorEntry::of("transformer.blocks.0.attn1.to_k.lora_A.weight", wide_down));
  entries.push_back(io::TensorEntry::of("transformer.blocks.0.attn1.to_k.lora_B.weight", wide_up));
  io::write_safetensors(scratch_ / "two.safetensors", entries);
  EXPECT_THAT(
      [&] {
        uniform_rank(
            {.lora = std::make_shared<const Lora>(Lora::open(scratch_ / "two.safetensors"))});
      },
      ThrowsMessage<Error>(HasSubstr("several ranks")));
}

}  // namespace
}  // namespace kinema::weights
