#include "kinema/weights/lora.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <memory>

#include "io/scratch.h"
#include "kinema/core/error.h"
#include "kinema/models/wan/transformer.h"
#include "kinema/weights/lora_key.h"
#include "kinema/weights/weights.h"
#include "networks/wan.h"

namespace kinema::weights {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::ThrowsMessage;

/// A key's module, part, and marks.
std::string read(std::string_view key) {
  const auto found = read_lora_key(key);
  if (!found) {
    return "";
  }
  constexpr std::array kParts{"down", "up", "up bias", "alpha", "diff", "diff bias"};
  return found->pieces.front().name + " " + kParts.at(static_cast<size_t>(found->part)) +
         (found->underscored ? " kohya" : "") +
         (found->member == LoraMember::SECOND_NETWORK ? " second" : "");
}

TEST(LoraKey, ReadsEveryFormat) {
  EXPECT_EQ(read("transformer.blocks.3.attn1.to_q.lora_A.weight"), "blocks.3.attn1.to_q down");
  EXPECT_EQ(read("transformer.blocks.3.attn1.to_out.0.lora_B.weight"),
            "blocks.3.attn1.to_out.0 up");
  EXPECT_EQ(read("transformer_2.blocks.3.ffn.net.0.proj.lora_B.default.weight"),
            "blocks.3.ffn.net.0.proj up second");
  EXPECT_EQ(read("base_model.model.blocks.0.attn2.to_k.lora_A.my_adapter.weight"),
            "blocks.0.attn2.to_k down");
  EXPECT_EQ(read("base_model.model.blocks.0.attn2.to_k.lora_B.default.bias"),
            "blocks.0.attn2.to_k up bias");
  EXPECT_EQ(read("diffusion_model.blocks.12.self_attn.q.lora_down.weight"),
            "blocks.12.attn1.to_q down");
  EXPECT_EQ(read("diffusion_model.blocks.12.cross_attn.k_img.lora.up.weight"),
            "blocks.12.attn2.add_k_proj up");
  EXPECT_EQ(read("model.diffusion_model.blocks.0.ffn.2.alpha"), "blocks.0.ffn.net.2 alpha");
  EXPECT_EQ(read("lora_unet_blocks_0_self_attn_q.lora_down.weight"),
            "blocks.0.attn1.to_q down kohya");
  EXPECT_EQ(read("lora_unet_blocks_39_ffn_0.alpha"), "blocks.39.ffn.net.0.proj alpha kohya");
  // VideoX-Fun, with dots after the block, SimpleTuner.
  for (const char* name : {"lora_unet__blocks_0_self_attn_q", "lora_unet_blocks_0.self_attn.q",
                           "lycoris_blocks_0_self_attn_q"}) {
    EXPECT_EQ(read(std::string(name) + ".lora_down.weight"),
              read("lora_unet_blocks_0_self_attn_q.lora_down.weight"));
  }
  EXPECT_EQ(read("lora_unet_blocks_7_attn2_to_out_0.lora_up.weight"),
            "blocks.7.attn2.to_out.0 up kohya");
  EXPECT_EQ(read("lora_unet_text_embedding_2.lora_up.weight"),
            "condition_embedder.text_embedder.linear_2 up kohya");
  EXPECT_EQ(read("blocks.0.self_attn.o.lora_A.weight"), "blocks.0.attn1.to_out.0 down");
  EXPECT_EQ(read("pipe.dit.blocks.0.self_attn.o.lora_A.default.weight"),
            "blocks.0.attn1.to_out.0 down");
  EXPECT_EQ(read("diffusion_model.blocks.0.self_attn.q_lora.down.weight"),
            "blocks.0.attn1.to_q down");
  EXPECT_EQ(read("diffusion_model.blocks.0.self_attn.norm_q.diff"), "blocks.0.attn1.norm_q diff");
  EXPECT_EQ(read("diffusion_model.blocks.0.norm3.diff_b"), "blocks.0.norm2 diff bias");
  EXPECT_EQ(read("lora_unet_blocks_0_norm3.w_norm"), "blocks.0.norm2 diff kohya");
  EXPECT_EQ(read("lora_unet_blocks_0_norm3.b_norm"), "blocks.0.norm2 diff bias kohya");
  EXPECT_EQ(read("diffusion_model.blocks.0.diff_m"), "blocks.0.scale_shift_table diff");
  EXPECT_EQ(read("diffusion_model.blocks.0.modulation.diff"), "blocks.0.scale_shift_table diff");
  EXPECT_EQ(read("diffusion_model.head.diff_m"), "scale_shift_table diff");
  EXPECT_EQ(read("diffusion_model.head.head.diff_b"), "proj_out diff bias");
  EXPECT_EQ(read("diffusion_model.patch_embedding.diff"), "patch_embedding diff");
  EXPECT_EQ(read("diffusion_model.time_projection.1.lora_up.weight"),
            "condition_embedder.time_proj up");
  EXPECT_EQ(read("diffusion_model.img_emb.proj.3.lora_up.weight"),
            "condition_embedder.image_embedder.ff.net.2 up");
}

TEST(LoraKey, RefusesWhatNamesNoModule) {
  for (const char* key :
       {"", ".", "alpha", "lora_A.weight", "blocks.0.attn1.to_q.weight", "lora_te_layer_0.alpha",
        "text_encoder.blocks.0.attn1.to_q.lora_A.weight", "blocks..attn1.to_q.lora_A.weight",
        "blocks.00.attn1.to_q.lora_A.weight", "blocks.-1.attn1.to_q.lora_A.weight",
        "blocks.99999.attn1.to_q.lora_A.weight", "blocks.0.lora_A.weight",
        "blocks.0.attn1.to_q.lora_A..weight", "blocks.0.attn1.to_q.lora_A.a.b.weight",
        "lora_unet_blocks_0.alpha", "lora_unet_blocks__self_attn_q.alpha",
        "blocks_0_self_attn_q.lora_down.weight", "diffusion_model.blocks.0.norm1.diff"}) {
    EXPECT_EQ(read(key), "") << key;
  }
}

TEST(Names, TranslateEveryParameterBothWays) {
  wan::TransformerConfig config = wan_config(io::golden("wan21_i2v/transformer"));
  config.pos_embed_seq_len = 34;
  for (const nn::ParamSpec& spec : wan::parameters(config, {.scan_layers = false})) {
    const auto original = model_files::original_key(model_files::kWanNames, spec.name);
    ASSERT_TRUE(original.has_value()) << spec.name;
    EXPECT_EQ(model_files::diffusers_keys(model_files::kWanNames, original->name),
              std::vector<model_files::Piece>{{spec.name}});
  }
  EXPECT_EQ(model_files::original_key(model_files::kWanNames, "blocks.11.norm2.bias")->name,
            "blocks.11.norm3.bias");
  EXPECT_EQ(model_files::original_key(model_files::kWanNames, "decoder.conv_in.weight"),
            std::nullopt);
  EXPECT_TRUE(
      model_files::diffusers_keys(model_files::kWanNames, "blocks.0.attn1.to_q.weight").empty());
}

// ---- Files ---------------------------------------------------------------------------------

HostArray filled(Dims dims, float scale) {
  HostArray out(Shape{DType::F32, std::move(dims)});
  float x = 0.3F;
  for (float& value : out.as<float>()) {
    x = 3.7F * x * (1.0F - x);  // a chaotic map: disordered values in (0, 1)
    value = scale * (x - 0.5F);
  }
  return out;
}

class LoraFile : public testing::Test {
 protected:
  void put(const std::string& key, HostArray array) { tensors_.insert_or_assign(key, array); }
  void put(const std::string& key, Dims dims) { put(key, filled(std::move(dims), 1.0F)); }
  void pair(const std::string& module, int64_t out, int64_t in, int64_t rank) {
    put(module + ".lora_A.weight", {rank, in});
    put(module + ".lora_B.weight", {out, rank});
  }
  std::filesystem::path write(const std::map<std::string, std::string>& metadata = {}) {
    std::vector<io::TensorEntry> entries;
    for (const auto& [key, array] : tensors_) {
      entries.push_back(io::TensorEntry::of(key, array));
    }
    io::write_safetensors(scratch_ / "lora.safetensors", entries, metadata);
    return scratch_ / "lora.safetensors";
  }
  std::shared_ptr<const Lora> open() { return std::make_shared<const Lora>(Lora::open(write())); }
  void refuses(const std::string& why) {
    EXPECT_THAT([&] { Lora::open(write()); },
                ThrowsMessage<Error>(
                    AllOf(HasSubstr(why), HasSubstr("lora.safetensors"), Not(HasSubstr("\n")))));
  }

  io::Scratch scratch_;
  std::map<std::string, HostArray> tensors_;
  wan::TransformerConfig config_ = wan_config(io::golden("wan21_t2v/transformer"));
  std::vector<nn::ParamSpec> specs_ = wan::parameters(config_, {});
};

TEST_F(LoraFile, DescribesTheReferenceFiles) {
  const auto summary = [](const char* name) {
    return Lora::open(io::golden(std::string("lora/") + name + ".safetensors")).summary();
  };
  EXPECT_EQ(summary("diffusers"), "diffusers names, rank 4, 16 modules of Wan");
  EXPECT_EQ(summary("comfy"), "original Wan names, rank 4, 20 modules of Wan");
  EXPECT_EQ(summary("comfy_bias"), "original Wan names, rank 4, 16 modules of Wan");
}

TEST_F(LoraFile, MayBeAFileOfTorch) {
  const Lora torch = Lora::open(io::golden("pickles/lora.bin"));
  const Lora same = Lora::open(io::golden("lora/adapter.safetensors"));
  EXPECT_EQ(torch.summary(), same.summary());
  ASSERT_EQ(torch.targets().size(), same.targets().size());
  for (const auto& [module, target] : same.targets()) {
    EXPECT_EQ(torch.targets().at(module).up->copy().bytes, target.up->copy().bytes) << module;
  }
}

TEST_F(LoraFile, AddsScaleTimesAlphaOverRankTimesTheProduct) {
  pair("transformer.blocks.0.attn1.to_q", 64, 64, 3);
  put("transformer.blocks.0.attn1.to_q.alpha", HostArray::f32({}, std::array{6.0F}));
  put("transformer.blocks.0.attn1.to_q.diff", {64, 64});
  put("transformer.blocks.0.attn1.to_q.diff_b", {64});
  const auto lora = open();
  const Adapter adapter{.lora = lora, .scale = 0.25};
  const Adapters adapters(std::span(&adapter, 1), specs_);
  std::vector<float> weight(64 * 64, 1.0F);
  std::vector<float> bias(64, 2.0F);
  adapters.add_to("blocks.0.attn1.to_q.weight", weight);
  adapters.add_to("blocks.0.attn1.to_q.bias", bias);

  const auto value = [&](const std::string& part, int64_t i) {
    const HostArray& array = tensors_.at("transformer.blocks.0.attn1.to_q." + part);
    return static_cast<double>(array.as<float>()[static_cast<size_t>(i)]);
  };
  for (int64_t row = 0; row < 64; ++row) {
    for (int64_t column = 0; column < 64; ++column) {
      double product = 0;
      for (int64_t r = 0; r < 3; ++r) {
        product += value("lora_B.weight", row * 3 + r) * value("lora_A.weight", r * 64 + column);
      }
      const double expected = 1.0 + 0.25 * (6.0 / 3.0 * product + value("diff", row * 64 + column));
      // Values are below 2; three products and three sums have errors of at most 6 ulp of f32
      // there.
      EXPECT_NEAR(weight[static_cast<size_t>(row * 64 + column)], expected, 6 * 1.2e-7);
    }
    EXPECT_NEAR(bias[static_cast<size_t>(row)], 2.0 + 0.25 * value("diff_b", row), 2.4e-7);
  }
  EXPECT_TRUE(adapters.change("blocks.0.attn1.to_q.weight"));
  EXPECT_FALSE(adapters.change("blocks.1.attn1.to_q.weight"));
  EXPECT_THAT(adapters.report(),
              ElementsAre("lora.safetensors: all 5 keys matched, 2 parameters, scale 0.25 "
                          "(diffusers names, rank 3, 1 module of Wan)"));
}

TEST_F(LoraFile, AddsSeveralAdaptersInTheirOrder) {
  pair("blocks.1.ffn.net.2", 64, 128, 2);
  const auto lora = open();
  const Adapter twice[] = {{.lora = lora, .scale = 0.5}, {.lora = lora, .scale = 1.5}};
  const Adapter once{.lora = lora, .scale = 2.0};
  std::vector<float> a(64 * 128);
  std::vector<float> b(64 * 128);
  Adapters(twice, specs_).add_to("blocks.1.ffn.net.2.weight", a);
  Adapters(std::span(&once, 1), specs_).add_to("blocks.1.ffn.net.2.weight", b);

  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_NEAR(a[i], b[i], 2.4e-7);  // sums below 2: one rounding each
  }
}

// Two adapters of different ranks on layers of one stack: each layer has room for the largest sum
// of ranks, adapters are stored end to end, and the rest stays zero.
TEST_F(LoraFile, KeepsProductsApartWhereTheModelHasRoom) {
  pair("transformer.blocks.0.attn1.to_q", 64, 64, 2);
  put("transformer.blocks.0.attn1.to_q.alpha", HostArray::f32({}, std::array{6.0F}));
  put("transformer.blocks.0.attn1.to_q.diff", {64, 64});
  pair("transformer.blocks.1.attn1.to_q", 64, 64, 1);
  put("transformer.patch_embedding.lora_A.weight", {2, 16, 1, 2, 2});
  put("transformer.patch_embedding.lora_B.weight", {64, 2, 1, 1, 1});
  const auto lora = open();
  const Adapter twice[] = {{.lora = lora, .scale = 0.5}, {.lora = lora, .scale = -1.5}};
  const nn::LowRanks ranks = low_ranks(twice, specs_);
  EXPECT_EQ(ranks, (nn::LowRanks{{"blocks.{}.attn1.to_q", 4}}));

  const std::vector<nn::ParamSpec> specs = wan::parameters(config_, {.low_ranks = ranks});
  EXPECT_EQ(specs.size(), specs_.size() + 3);
  const Adapters adapters(twice, specs);
  const auto added = [&](const std::string& key, int64_t elements) {
    std::vector<float> values(static_cast<size_t>(elements));
    adapters.add_to(key, values);
    return values;
  };
  const auto at = [&](const std::string& key) {
    return tensors_.at("transformer." + key).as<float>();
  };
  EXPECT_THAT(added("blocks.0.attn1.to_q.lora_scale", 4), ElementsAre(1.5F, 1.5F, -4.5F, -4.5F));
  EXPECT_THAT(added("blocks.1.attn1.to_q.lora_scale", 4), ElementsAre(0.5F, -1.5F, 0.0F, 0.0F));
  const std::vector<float> down = added("blocks.1.attn1.to_q.lora_A.weight", int64_t{4} * 64);
  const std::vector<float> up = added("blocks.0.attn1.to_q.lora_B.weight", int64_t{64} * 4);
  for (size_t i = 0; i < 64; ++i) {
    const float one = at("blocks.1.attn1.to_q.lora_A.weight")[i];
    EXPECT_EQ(down[i], one);
    EXPECT_EQ(down[64 + i], one);
    EXPECT_EQ(down[128 + i], 0.0F);
    for (size_t r = 0; r < 4; ++r) {
      EXPECT_EQ(up[4 * i + r], at("blocks.0.attn1.to_q.lora_B.weight")[2 * i + r % 2]);
    }
  }
  // Differences, and products for anything but a linear layer, change the weight itself.
  EXPECT_EQ(added("blocks.0.attn1.to_q.weight", int64_t{64} * 64)[5],
            0.5F * at("blocks.0.attn1.to_q.diff")[5] - 1.5F * at("blocks.0.attn1.to_q.diff")[5]);
  EXPECT_FALSE(adapters.change("blocks.1.attn1.to_q.weight"));
  EXPECT_TRUE(adapters.change("patch_embedding.weight"));
  EXPECT_THAT(adapters.report()[0],
              HasSubstr("3 parameters, 2 low-rank pairs not merged, scale 0.5"));
}

TEST_F(LoraFile, NeedsTheRanksOfAllItsAdapters) {
  pair("transformer.blocks.0.attn1.to_q", 64, 64, 2);
  const auto lora = open();
  const Adapter twice[] = {{.lora = lora}, {.lora = lora}};
  const auto specs = wan::parameters(config_, {.low_ranks = {{"blocks.{}.attn1.to_q", 3}}});

  EXPECT_THAT([&] { Adapters(twice, specs); },
              ThrowsMessage<Error>(HasSubstr("have 4 ranks but the model has room for 3")));
}

TEST(LowRanks, OfTwoModelsAreTheGreaterOfEach) {
  EXPECT_EQ(greatest({{"a", 2}, {"b", 4}}, {{"b", 3}, {"c", 1}}),
            (nn::LowRanks{{"a", 2}, {"b", 4}, {"c", 1}}));
}

TEST_F(LoraFile, MultipliesConvolutionsAsFlattenedKernels) {
  put("diffusion_model.patch_embedding.lora_down.weight", {2, 16, 1, 2, 2});
  put("diffusion_model.patch_embedding.lora_up.weight", {64, 2, 1, 1, 1});
  // A linear weight written as a 1x1 convolution.
  put("diffusion_model.blocks.0.ffn.0.lora_down.weight", {2, 64, 1, 1});
  put("diffusion_model.blocks.0.ffn.0.lora_up.weight", {128, 2, 1, 1});
  const auto lora = open();
  const Adapter adapter{.lora = lora};
  const Adapters adapters(std::span(&adapter, 1), specs_);
  std::vector<float> weight(64 * 64);
  adapters.add_to("patch_embedding.weight", weight);

  const auto down = tensors_.at("diffusion_model.patch_embedding.lora_down.weight").as<float>();
  const auto up = tensors_.at("diffusion_model.patch_embedding.lora_up.weight").as<float>();
  EXPECT_NEAR(weight[5 * 64 + 9], up[10] * down[9] + up[11] * down[64 + 9], 1e-7);
  EXPECT_TRUE(adapters.change("blocks.0.ffn.net.0.proj.weight"));
}

TEST_F(LoraFile, TakesAlphaFromTheMetadataWhereNoKeyHasIt) {
  pair("transformer.blocks.0.attn1.to_q", 64, 64, 4);
  pair("transformer.blocks.0.attn1.to_k", 64, 64, 4);
  pair("transformer.blocks.0.attn1.to_v", 64, 64, 4);
  put("transformer.blocks.0.attn1.to_v.alpha", HostArray::f32({1}, std::array{1.0F}));
  const Lora lora = Lora::open(write({{"lora_adapter_metadata",
                                       R"({"transformer.r": 4, "transformer.lora_alpha": 8,
                  "transformer.alpha_pattern": {"attn1.to_k": 2}})"}}));

  EXPECT_EQ(lora.targets().at("blocks.0.attn1.to_q").factor, 2.0);
  EXPECT_EQ(lora.targets().at("blocks.0.attn1.to_k").factor, 0.5);
  EXPECT_EQ(lora.targets().at("blocks.0.attn1.to_v").factor, 0.25);
}

// diffusers' transformer.save_lora_adapter: PEFT's settings under their own names.
TEST_F(LoraFile, TakesAlphaFromTheMetadataOfATransformersOwnFile) {
  pair("blocks.0.attn1.to_q", 64, 64, 4);
  pair("blocks.0.attn1.to_k", 64, 64, 4);
  pair("blocks.1.attn1.to_k", 64, 64, 4);
  const Lora lora = Lora::open(write({{"lora_adapter_metadata", R"({"r": 4, "lora_alpha": 8,
      "alpha_pattern": {"^blocks.1.attn1.to_k": 3, "attn1\\.to_k$": 2, "to_k": 1}})"}}));

  EXPECT_EQ(lora.targets().at("blocks.0.attn1.to_q").factor, 2.0);
  EXPECT_EQ(lora.targets().at("blocks.0.attn1.to_k").factor, 0.5);
  EXPECT_EQ(lora.targets().at("blocks.1.attn1.to_k").factor, 0.75);
}

TEST_F(LoraFile, TakesAlphasOfRegularExpressionsAsPeftDoes) {
  pair("blocks.0.attn1.to_q", 64, 64, 4);
  pair("blocks.0.attn1.to_v", 64, 64, 4);
  pair("blocks.1.attn2.to_q", 64, 64, 4);
  const Lora lora = Lora::open(write({{"lora_adapter_metadata", R"json({"lora_alpha": 4,
      "alpha_pattern": {"attn1\\.to_(q|k)": 8, "attn1": 20, "blocks\\.1\\..*": 12}})json"}}));

  EXPECT_EQ(lora.targets().at("blocks.0.attn1.to_q").factor, 2.0);
  EXPECT_EQ(lora.targets().at("blocks.0.attn1.to_v").factor, 1.0);  // `attn1` is not an ending
  EXPECT_EQ(lora.targets().at("blocks.1.attn2.to_q").factor, 3.0);
  const auto broken =
      write({{"lora_adapter_metadata", R"json({"alpha_pattern": {"to_(q": 3}})json"}});
  EXPECT_THAT([&] { Lora::open(broken); }, ThrowsMessage<Error>(HasSubstr("to_(q")));
  // Plain names need no matcher; a file's patterns share a budget for matching: these would take
  // hours.
  std::string names;
  std::string slow;
  for (int i = 0; i < 4000; ++i) {
    names += fmt::format("\"blocks.{}.attn9.to_q\": 1, ", i);
    if (i < 300) {
      slow += fmt::format("{}\"(.*.*.*.*.*.*.*)_{}\": 1", i == 0 ? "" : ", ", i);
    }
  }
  const auto named =
      write({{"lora_adapter_metadata", "{\"alpha_pattern\": {" + names + "\"attn2.to_q\": 12}}"}});
  EXPECT_EQ(Lora::open(named).targets().at("blocks.1.attn2.to_q").factor, 3.0);
  const auto slow_one = write({{"lora_adapter_metadata", "{\"alpha_pattern\": {" + slow + "}}"}});
  EXPECT_THAT([&] { Lora::open(slow_one); },
              ThrowsMessage<Error>(HasSubstr("takes too long to be matched")));
  std::string many;
  for (int i = 0; i < 5000; ++i) {
    many += fmt::format("{}\"m{}\": 1", i == 0 ? "" : ", ", i);
  }
  const auto long_one = write({{"lora_adapter_metadata", "{\"alpha_pattern\": {" + many + "}}"}});
  EXPECT_THAT([&] { Lora::open(long_one); }, ThrowsMessage<Error>(HasSubstr("at most 4096")));
}

// Products of rank 4 and 2 in float32, whose factors and sums are rounded: a few parts in 10^7 of
// values around 1.
TEST(LoraGolden, ScalesAsPeftDoes) {
  for (const std::string name : {"adapter", "adapter_rslora"}) {
    const Lora lora = Lora::open(io::golden("lora/" + name + ".safetensors"));
    const auto deltas =
        io::SafetensorsFile::open(io::golden("lora/" + name + "_deltas.safetensors"));
    ASSERT_EQ(lora.targets().size(), deltas.tensors().size());
    for (const auto& [module, target] : lora.targets()) {
      SCOPED_TRACE(name + " " + module);
      const HostArray expected = deltas.at(module).copy();
      const HostArray up_values = target.up->copy();
      const HostArray down_values = target.down->copy();
      const auto up = up_values.as<float>();
      const auto down = down_values.as<float>();
      const auto [rows, columns] = std::pair(expected.shape.dims[0], expected.shape.dims[1]);
      for (int64_t i = 0; i < rows; ++i) {
        for (int64_t j = 0; j < columns; ++j) {
          double sum = 0;
          for (int64_t k = 0; k < target.rank(); ++k) {
            sum += static_cast<double>(up[i * target.rank() + k]) * down[k * columns + j];
          }
          EXPECT_NEAR(target.factor * sum, expected.as<float>()[i * columns + j], 1e-5);
        }
      }
    }
  }
}

TEST_F(LoraFile, ReadsAPeftFolder) {
  pair("base_model.model.blocks.0.attn1.to_q", 64, 64, 4);
  std::filesystem::rename(write(), scratch_ / "adapter_model.safetensors");
  std::ofstream(scratch_ / "adapter_config.json")
      << R"({"r": 4, "lora_alpha": 6, "use_rslora": true, "alpha_pattern": {}})";

  EXPECT_EQ(Lora::open(scratch_.path()).targets().at("blocks.0.attn1.to_q").factor, 3.0);
  // The same file under its own name and under another one: its keys identify the program.
  const auto named = scratch_ / "adapter_model.safetensors";
  EXPECT_EQ(Lora::open(named).targets().at("blocks.0.attn1.to_q").factor, 3.0);
  std::filesystem::rename(named, scratch_ / "kites.safetensors");
  EXPECT_EQ(Lora::open(scratch_ / "kites.safetensors").targets().at("blocks.0.attn1.to_q").factor,
            3.0);
}

TEST_F(LoraFile, RefusesMethodsThatChangeTheBase) {
  pair("base_model.model.blocks.0.attn1.to_q", 64, 64, 4);
  std::filesystem::rename(write(), scratch_ / "adapter_model.safetensors");
  for (const char* init : {"pissa", "pissa_niter_16", "olora", "corda", "loftq"}) {
    std::ofstream(scratch_ / "adapter_config.json")
        << R"({"r": 4, "lora_alpha": 4, "init_lora_weights": ")" << init << "\"}";
    EXPECT_THAT([&] { Lora::open(scratch_.path()); },
                ThrowsMessage<Error>(AllOf(HasSubstr(init), HasSubstr("changes the model too"))));
  }
  for (const char* init : {"true", "\"gaussian\"", "\"eva\"", "null"}) {
    std::ofstream(scratch_ / "adapter_config.json")
        << R"({"r": 4, "lora_alpha": 4, "init_lora_weights": )" << init << "}";
    EXPECT_EQ(Lora::open(scratch_.path()).targets().size(), 1U) << init;
  }
}

TEST_F(LoraFile, KeepsTheTwoExpertsApart) {
  pair("transformer.blocks.0.attn1.to_q", 64, 64, 4);
  pair("transformer_2.blocks.0.attn1.to_k", 64, 64, 2);
  const Lora lora = Lora::open(write());

  EXPECT_TRUE(lora.has_two_parts());
  EXPECT_TRUE(lora.targets(0).contains("blocks.0.attn1.to_q"));
  EXPECT_TRUE(lora.targets(1).contains("blocks.0.attn1.to_k"));
  EXPECT_EQ(lora.targets(1).size(), 1U);
  EXPECT_EQ(lora.summary(), "diffusers names, ranks 2 to 4, 2 modules of two experts of Wan");
}

TEST_F(LoraFile, GivesAFileOfOneExpertToEither) {
  pair("transformer_2.blocks.0.attn1.to_k", 64, 64, 2);
  const Lora lora = Lora::open(write());

  EXPECT_FALSE(lora.has_two_parts());
  EXPECT_EQ(lora.targets(0).size(), 1U);
  EXPECT_EQ(lora.targets(1).size(), 1U);
  EXPECT_EQ(lora.only_expert(), 1);
}

TEST_F(LoraFile, SaysWhichExpertItWasTrainedFor) {
  pair("transformer.blocks.0.attn1.to_k", 64, 64, 2);
  EXPECT_EQ(Lora::open(write()).only_expert(), std::nullopt);
  EXPECT_EQ(Lora::open(write({{"kinema.expert", "high_noise"}})).only_expert(), 0);
  EXPECT_EQ(Lora::open(write({{"kinema.expert", "low_noise"}})).only_expert(), 1);
}

TEST_F(LoraFile, RefusesInvalidFiles) {
  put("transformer.blocks.0.attn1.to_q.lora_A.weight", {4, 64});
  refuses("has no other half");
  put("transformer.blocks.0.attn1.to_q.lora_B.weight", {64, 3});
  refuses("of one rank");
  put("transformer.blocks.0.attn1.to_q.lora_B.weight", {64});
  refuses("of one rank");
  put("transformer.blocks.0.attn1.to_q.lora_B.weight", {64, 4});
  put("transformer.blocks.0.attn1.to_q.alpha", {2});
  refuses("must be one number");
  put("transformer.blocks.0.attn1.to_q.alpha", HostArray::f32({}, std::array{NAN}));
  refuses("is nan");
  tensors_.erase("transformer.blocks.0.attn1.to_q.alpha");
  put("blocks.0.self_attn.q.lora_up.weight", {64, 4});
  refuses("are the same part of `blocks.0.attn1.to_q`");
  tensors_.erase("blocks.0.self_attn.q.lora_up.weight");
  put("transformer.blocks.0.attn1.to_q.dora_scale", {60, 1});
  refuses("expected one norm for each of the weight's 64 rows");
  put("transformer.blocks.0.attn1.to_q.lokr_w1", {2, 2});
  refuses("does not belong to LoKr");
  tensors_.clear();
  put("transformer.blocks.0.attn1.to_q.lokr_w1", {2, 2});
  refuses("the module has no lokr_w2_a");
  put("transformer.blocks.0.attn1.to_q.lokr_w2_a", {3, 2});
  put("transformer.blocks.0.attn1.to_q.lokr_w2_b", {3, 2});
  refuses("they do not fit together");
  tensors_.clear();
  put("transformer.blocks.0.attn1.to_q.alpha", HostArray::f32({}, std::array{1.0F}));
  refuses("no pair of down and up to go with it");
  tensors_.clear();
  put("lora_te_text_model.alpha", {1});
  refuses("no LoRA key of a known network");
  tensors_.clear();
  put("transformer.blocks.0.attn1.to_q.lora_A.weight", HostArray(Shape{DType::S8, {4, 64}}));
  refuses("must be floating-point");
}

TEST_F(LoraFile, NamesTheKeysThatFitNoParameter) {
  pair("transformer.blocks.1.attn1.to_q", 64, 64, 4);
  pair("transformer.blocks.2.attn1.to_q", 64, 64, 4);
  put("lora_te_text_model.alpha", {1});
  const auto lora = open();
  const Adapter adapter{.lora = lora};

  EXPECT_THAT(
      [&] { Adapters(std::span(&adapter, 1), specs_); },
      ThrowsMessage<Error>(AllOf(HasSubstr("3 of 5 keys fit no parameter of the model, "
                                           "`lora_te_text_model.alpha` for one; the other 2 do"),
                                 HasSubstr("lora_unmatched=skip"))));
}

/// What is said of the file with this choice.
std::string report(const std::shared_ptr<const Lora>& lora, Unmatched unmatched,
                   const std::vector<nn::ParamSpec>& specs) {
  const Adapter adapter{.lora = lora, .unmatched = unmatched};
  return Adapters(std::span(&adapter, 1), specs).report().at(0);
}

// Wan 2.1's I2V on a model without image conditioning, with a patch embedding of other channels,
// and OneTrainer's embeddings.
TEST_F(LoraFile, SkipsPartsOfANeighbouringModelThatDoNoHarm) {
  pair("transformer.blocks.0.attn1.to_q", 64, 64, 4);
  pair("transformer.blocks.0.attn2.add_k_proj", 64, 64, 4);
  put("transformer.blocks.0.attn2.norm_added_k.diff", {64});
  put("transformer.condition_embedder.image_embedder.ff.net.2.diff_b", {64});
  put("transformer.patch_embedding.diff", {64, 36, 1, 2, 2});
  put("bundle_emb.cat.clip_g", {2, 20});
  const auto lora = open();
  EXPECT_THAT(report(lora, Unmatched::HARMLESS, specs_),
              HasSubstr("2 of 8 keys matched, 6 skipped (1 of embeddings of words, 4 of image "
                        "conditioning, 1 of the patch embedding), 1 parameters"));
  EXPECT_THAT([&] { report(lora, Unmatched::REFUSE, specs_); },
              ThrowsMessage<Error>(
                  HasSubstr("is for a [64,36,1,2,2] but the model's `patch_embedding.weight`")));
  const Adapter adapter{.lora = lora};
  const Adapters adapters(std::span(&adapter, 1), specs_);
  EXPECT_FALSE(adapters.change("patch_embedding.weight"));
}

TEST_F(LoraFile, SkipsWhatDoesNotFitIfAsked) {
  pair("transformer.blocks.0.attn1.to_q", 64, 64, 4);
  pair("transformer.blocks.0.attn1.to_k", 32, 32, 4);
  pair("transformer.blocks.9.attn1.to_q", 64, 64, 4);
  EXPECT_THAT(
      report(open(), Unmatched::SKIP, specs_),
      HasSubstr("2 of 6 keys matched, 4 skipped (2 of modules that the model does not have, "
                "2 of weights of another size)"));
  EXPECT_THAT([&] { report(open(), Unmatched::HARMLESS, specs_); }, testing::Throws<Error>());
  tensors_.erase("transformer.blocks.0.attn1.to_q.lora_A.weight");
  tensors_.erase("transformer.blocks.0.attn1.to_q.lora_B.weight");
  EXPECT_THAT([&] { report(open(), Unmatched::SKIP, specs_); },
              ThrowsMessage<Error>(HasSubstr("none of its 4 keys fits")));
}

TEST_F(LoraFile, ChangesWeightsByOtherMethodsWhileLoading) {
  put("lora_unet_blocks_0_self_attn_q.lokr_w1", {2, 4});
  put("lora_unet_blocks_0_self_attn_q.lokr_w2", {32, 16});
  put("lora_unet_blocks_0_self_attn_q.alpha", HostArray(Shape{DType::S64, {}}));
  put("lora_unet_patch_embedding.on_input", HostArray::f32({}, std::array{1.0F}));
  put("lora_unet_patch_embedding.weight", {1, 16, 1, 1, 1});
  const auto lora = open();
  EXPECT_EQ(lora->summary(), "kohya names, IA3 and LoKr, 2 modules of Wan");
  EXPECT_THAT(report(lora, Unmatched::HARMLESS, specs_), HasSubstr("all 5 keys matched, 2 param"));
  const Adapter adapter{.lora = lora, .scale = 2};
  const Adapters adapters(std::span(&adapter, 1), specs_);
  std::vector<float> weight(64 * 64, 1.0F);
  adapters.add_to("blocks.0.attn1.to_q.weight", weight);
  const auto w1 = tensors_.at("lora_unet_blocks_0_self_attn_q.lokr_w1").as<float>();
  const auto w2 = tensors_.at("lora_unet_blocks_0_self_attn_q.lokr_w2").as<float>();
  // Row 40 is row 8 of the second block, column 20 is column 4 of the second.
  EXPECT_FLOAT_EQ(weight[40 * 64 + 20], 1 + 2 * w1[1 * 4 + 1] * w2[8 * 16 + 4]);
  std::vector<float> kernel(64 * 16 * 4, 1.0F);
  adapters.add_to("patch_embedding.weight", kernel);
  const auto v = tensors_.at("lora_unet_patch_embedding.weight").as<float>();
  EXPECT_FLOAT_EQ(kernel[(5 * 16 + 3) * 4 + 2], 1 + 2 * v[3]);
  // Factors that are not a plain pair are merged in both modes.
  EXPECT_TRUE(low_ranks(std::span(&adapter, 1), specs_).empty());
}

TEST_F(LoraFile, SaysInOneLineThatItIsForAnotherSize) {
  pair("diffusion_model.blocks.0.self_attn.q", 32, 32, 4);
  pair("diffusion_model.blocks.0.self_attn.k", 32, 32, 4);
  pair("diffusion_model.blocks.20.self_attn.k", 32, 32, 4);
  const auto lora = open();
  const Adapter adapter{.lora = lora};

  EXPECT_THAT([&] { Adapters(std::span(&adapter, 1), specs_); },
              ThrowsMessage<Error>(
                  AllOf(HasSubstr("is for a [32,32] but the model's "
                                  "`blocks.0.attn1.to_k.weight` is [64,64] (1 more differ too): "
                                  "it was made for another model"),
                        Not(HasSubstr("\n")))));
}

TEST_F(LoraFile, RefusesValuesThatAreNotFinite) {
  pair("blocks.0.attn1.to_q", 64, 64, 4);
  tensors_.at("blocks.0.attn1.to_q.lora_B.weight").as<float>()[7] = INFINITY;
  const auto lora = open();
  const Adapter adapter{.lora = lora};
  const Adapters adapters(std::span(&adapter, 1), specs_);
  std::vector<float> weight(64 * 64);

  EXPECT_THAT([&] { adapters.add_to("blocks.0.attn1.to_q.weight", weight); },
              ThrowsMessage<Error>(HasSubstr("not finite")));
  EXPECT_THAT([&] { lora->check_finite(); },
              ThrowsMessage<Error>(HasSubstr("blocks.0.attn1.to_q.lora_B.weight` f32[64,4] holds "
                                             "values that are not finite")));
}

}  // namespace
}  // namespace kinema::weights
