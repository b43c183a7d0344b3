#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "arrays.h"
#include "io/scratch.h"
#include "kinema/core/error.h"
#include "kinema/io/atomic_write.h"
#include "kinema/io/json.h"
#include "kinema/io/safetensors.h"
#include "kinema/model_files/checkpoint.h"
#include "kinema/model_files/names.h"
#include "kinema/models/clip/text.h"
#include "kinema/networks/open.h"
#include "kinema/weights/clip.h"
#include "kinema/weights/convert_lora.h"
#include "kinema/weights/lora.h"
#include "kinema/weights/lora_key.h"

// LoRA files of Flux and Stable Diffusion XL, whose original releases join modules and number them
// differently.
namespace kinema::weights {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

std::vector<nn::ParamSpec> specs_of(const std::string& folder) {
  return networks::open(io::golden(folder))->parameters({.scan_layers = false});
}

Adapter adapter_of(const fs::path& path) {
  return {.lora = std::make_shared<const Lora>(Lora::open(path))};
}

/// The change of each parameter.
std::map<std::string, std::vector<float>> changes(const std::vector<Adapter>& adapters,
                                                  const std::vector<nn::ParamSpec>& specs) {
  std::map<std::string, std::vector<float>> out;
  const Adapters fitted(adapters, specs);
  for (const nn::ParamSpec& spec : specs) {
    if (fitted.change(spec.name)) {
      std::vector<float> values(static_cast<size_t>(spec.shape.elements()));
      fitted.add_to(spec.name, values);
      out.emplace(spec.name, std::move(values));
    }
  }
  return out;
}

void expect_same(const std::map<std::string, std::vector<float>>& a,
                 const std::map<std::string, std::vector<float>>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [key, values] : a) {
    ASSERT_TRUE(b.contains(key)) << key;
    // Sums of a handful of products of numbers of order one, in another order.
    EXPECT_THAT(values, testing::Pointwise(testing::FloatNear(2e-6F), b.at(key))) << key;
  }
}

// ---- Keys ----------------------------------------------------------------------------------

/// The modules that a key refers to, in a network with these names.
std::string read(std::string_view key, const model_files::NameTable& names) {
  const auto found = read_lora_key(key, names);
  std::string out;
  for (const model_files::Piece& piece :
       found ? found->pieces : std::vector<model_files::Piece>()) {
    out += (out.empty() ? "" : " ") + piece.name;
  }
  if (found && found->member >= LoraMember::TEXT_ENCODER) {
    out += found->member == LoraMember::TEXT_ENCODER ? " (text)" : " (text 2)";
  }
  return out;
}

TEST(LoraKeyOfFlux, ReadsEveryFormat) {
  const std::string joined =
      "transformer_blocks.3.attn.to_q transformer_blocks.3.attn.to_k "
      "transformer_blocks.3.attn.to_v";
  const auto flux = [](std::string_view key) { return read(key, model_files::kFluxNames); };
  EXPECT_EQ(flux("transformer.transformer_blocks.3.attn.to_q.lora_A.weight"),
            "transformer_blocks.3.attn.to_q");
  EXPECT_EQ(flux("lora_unet_double_blocks_3_img_attn_qkv.lora_down.weight"), joined);
  EXPECT_EQ(flux("diffusion_model.double_blocks.3.img_attn.qkv.alpha"), joined);
  EXPECT_EQ(flux("base_model.model.double_blocks.3.img_attn.qkv.lora_A.weight"), joined);
  EXPECT_EQ(flux("double_blocks.3.processor.qkv_lora1.up.weight"), joined);
  EXPECT_EQ(flux("double_blocks.3.processor.proj_lora2.down.weight"),
            "transformer_blocks.3.attn.to_add_out");
  EXPECT_EQ(flux("single_blocks.3.processor.proj_lora.down.weight"),
            "single_transformer_blocks.3.proj_out");
  EXPECT_EQ(flux("lora_transformer_single_transformer_blocks_3_attn_to_q.lora_up.weight"),
            "single_transformer_blocks.3.attn.to_q");
  EXPECT_EQ(flux("lora_unet_single_blocks_3_modulation_lin.lora_up.weight"),
            "single_transformer_blocks.3.norm.linear");
  EXPECT_EQ(flux("lora_te1_text_model_encoder_layers_5_self_attn_q_proj.alpha"),
            "text_model.encoder.layers.5.self_attn.q_proj (text)");
  EXPECT_EQ(flux("text_encoders.clip_l.transformer.text_model.encoder.layers.5.mlp.fc1.alpha"),
            "text_model.encoder.layers.5.mlp.fc1 (text)");
  for (const char* begin : {"lora_te3_encoder_block_3_layer_1_DenseReluDense_wi_0",
                            "lora_te2_encoder_block_3_layer_1_DenseReluDense_wi_0",
                            "text_encoder_2.encoder.block.3.layer.1.DenseReluDense.wi_0",
                            "text_encoders.t5xxl.transformer.encoder.block.3.layer.1."
                            "DenseReluDense.wi_0"}) {
    EXPECT_EQ(flux(std::string(begin) + ".lora_up.weight"),
              "encoder.block.3.layer.1.DenseReluDense.wi_0 (text 2)");
  }
  EXPECT_EQ(flux("double_blocks.0.img_attn.norm.query_norm.scale"), "");
}

TEST(LoraKeyOfZImage, ReadsEveryFormat) {
  const std::string joined =
      "layers.3.attention.to_q layers.3.attention.to_k layers.3.attention.to_v";
  const auto zimage = [](std::string_view key) { return read(key, model_files::kZImageNames); };
  for (const char* begin : {"transformer.", "diffusion_model.", ""}) {
    EXPECT_EQ(zimage(begin + std::string("layers.3.attention.to_q.lora_A.weight")),
              "layers.3.attention.to_q");
    EXPECT_EQ(zimage(begin + std::string("layers.3.attention.qkv.lora_down.weight")), joined);
  }
  EXPECT_EQ(zimage("layers.3.feed_forward.w1.lora_A.default.weight"), "layers.3.feed_forward.w1");
  EXPECT_EQ(zimage("lora_unet_layers_3_attention_to_out_0.lora_up.weight"),
            "layers.3.attention.to_out.0");
  EXPECT_EQ(zimage("lora_unet_layers_3_attention_qkv.alpha"), joined);
  EXPECT_EQ(zimage("lora_unet_layers_3_attention_out.lora_down.weight"),
            "layers.3.attention.to_out.0");
  EXPECT_EQ(zimage("diffusion_model.layers.3.adaLN_modulation.0.lokr_w1"),
            "layers.3.adaLN_modulation.0");
  EXPECT_EQ(zimage("diffusion_model.noise_refiner.1.attention.to_v.lora_B.weight"),
            "noise_refiner.1.attention.to_v");
  EXPECT_EQ(zimage("layers.0.attention.q_norm.weight"), "");
}

TEST(LoraKeyOfTheUNet, ReadsEveryFormat) {
  const std::string query = "down_blocks.1.attentions.0.transformer_blocks.0.attn1.to_q";
  const auto unet = [](std::string_view key) { return read(key, model_files::kUNetNames); };
  EXPECT_EQ(unet("unet." + query + ".lora_A.weight"), query);
  EXPECT_EQ(unet("lora_unet_input_blocks_4_1_transformer_blocks_0_attn1_to_q.lora_up.weight"),
            query);
  EXPECT_EQ(unet("lora_unet_down_blocks_1_attentions_0_transformer_blocks_0_attn1_to_q.alpha"),
            query);
  EXPECT_EQ(unet("unet.down_blocks.1.attentions.0.transformer_blocks.0.attn1.processor.to_q_lora."
                 "down.weight"),
            query);
  EXPECT_EQ(unet("unet.mid_block.attentions.0.transformer_blocks.0.attn2.processor.to_out_lora.up."
                 "weight"),
            "mid_block.attentions.0.transformer_blocks.0.attn2.to_out.0");
  EXPECT_EQ(unet("lora_unet_input_blocks_3_0_op.lora_down.weight"),
            "down_blocks.0.downsamplers.0.conv");
  EXPECT_EQ(unet("lora_te2_text_model_encoder_layers_31_mlp_fc2.lora_down.weight"),
            "text_model.encoder.layers.31.mlp.fc2 (text 2)");
  EXPECT_EQ(unet("text_encoder_2.text_model.encoder.layers.0.self_attn.out_proj.lora_B.weight"),
            "text_model.encoder.layers.0.self_attn.out_proj (text 2)");
  EXPECT_EQ(
      unet("conditioner.embedders.1.model.transformer.resblocks.2.attn.in_proj.lora_B.weight"),
      "text_model.encoder.layers.2.self_attn.q_proj text_model.encoder.layers.2.self_attn."
      "k_proj text_model.encoder.layers.2.self_attn.v_proj (text 2)");
}

// ---- Files ---------------------------------------------------------------------------------

TEST(LoraOfFamilies, AreRecognized) {
  for (const char* name : {"flux_diffusers", "flux_metadata", "flux_kohya", "flux_comfyui",
                           "flux_original_all", "flux_xlabs"}) {
    const Lora lora = Lora::open(io::golden(std::string("lora/") + name + ".safetensors"));
    ASSERT_NE(lora.family(), nullptr) << name;
    EXPECT_EQ(lora.family()->name, "Flux") << name;
    EXPECT_TRUE(lora.unknown().empty()) << name;
  }
  for (const char* name : {"sdxl_diffusers", "sdxl_diffusers_old", "sdxl_kohya", "sdxl_kohya_conv",
                           "sdxl_kohya_diffusers_names"}) {
    const Lora lora = Lora::open(io::golden(std::string("lora/") + name + ".safetensors"));
    ASSERT_NE(lora.family(), nullptr) << name;
    EXPECT_EQ(lora.family()->name, "Stable Diffusion XL") << name;
    EXPECT_TRUE(lora.unknown().empty()) << name;
  }
}

TEST(LoraOfFamilies, AreRefusedByOtherModels) {
  const std::map<std::string, std::string> models{{"Wan", "wan21_t2v/transformer"},
                                                  {"Flux", "flux_dev/transformer"},
                                                  {"Stable Diffusion XL", "sdxl/unet"}};
  const std::map<std::string, std::string> files{
      {"Wan", "comfy"}, {"Flux", "flux_kohya"}, {"Stable Diffusion XL", "sdxl_kohya"}};
  for (const auto& [model, folder] : models) {
    const auto specs = specs_of(folder);
    for (const auto& [made_for, file] : files) {
      SCOPED_TRACE(file + " on " + folder);
      const std::vector<Adapter> adapters{adapter_of(io::golden("lora/" + file + ".safetensors"))};
      if (made_for == model) {
        EXPECT_NO_THROW(Adapters(adapters, specs));
        continue;
      }
      EXPECT_THAT(
          [&] { Adapters(adapters, specs); },
          ThrowsMessage<Error>(HasSubstr("is for " + made_for + ", but the model is " + model)));
    }
  }
}

// The numbers in kohya's names depend on the number of layers per block, which the model defines.
TEST(LoraOfFamilies, CountByTheModelsLayers) {
  io::Json config = io::Json::read(io::golden("sdxl/unet/config.json"));
  config.set("layers_per_block", 1);
  const auto specs = networks::from_config(config)->parameters({.scan_layers = false});
  const model_files::Layout one{.layers_per_block = 1};
  std::vector<std::string> originals;
  for (const nn::ParamSpec& spec : specs) {
    originals.push_back(model_files::original_key(model_files::kUNetNames, spec.name, one)->name);
  }
  EXPECT_EQ(model_files::layout_of(model_files::kUNetNames, std::vector<std::string_view>(
                                                                originals.begin(), originals.end()))
                .layers_per_block,
            1);
  const io::Scratch scratch;
  std::map<std::string, HostArray> arrays;
  size_t pairs = 0;
  for (const nn::ParamSpec& spec : specs) {
    if (!spec.name.ends_with(".weight") || spec.shape.rank() != 2) {
      continue;
    }
    std::string name = model_files::original_module(model_files::kUNetNames,
                                                    spec.name.substr(0, spec.name.size() - 7), one)
                           ->name;
    std::ranges::replace(name, '.', '_');
    arrays.emplace("lora_unet_" + name + ".lora_down.weight",
                   HostArray(Shape{DType::F32, {1, spec.shape.dims[1]}}));
    arrays.emplace("lora_unet_" + name + ".lora_up.weight",
                   HostArray(Shape{DType::F32, {spec.shape.dims[0], 1}}));
    ++pairs;
  }
  std::vector<io::TensorEntry> entries;
  for (const auto& [name, array] : arrays) {
    entries.push_back(io::TensorEntry::of(name, array));
  }
  io::write_safetensors(scratch / "one.safetensors", entries);

  const std::vector<Adapter> adapters{adapter_of(scratch / "one.safetensors")};
  const Adapters fitted(adapters, specs);
  EXPECT_THAT(fitted.report().at(0), HasSubstr(fmt::format("all {} keys matched", 2 * pairs)));
  EXPECT_EQ(low_ranks(adapters, specs).size(), pairs);
}

TEST(LoraOfFamilies, FitTextEncodersWithAndWithoutAPrefix) {
  const std::vector<Adapter> adapters{adapter_of(io::golden("lora/sdxl_kohya.safetensors"))};
  const model_files::Checkpoint files =
      model_files::Checkpoint::open(io::golden("sdxl/text_encoder_2"), model_files::kTextEncoder2);
  const clip::TextConfig config = clip_text_config(files);
  const auto text = for_text(adapters, LoraMember::TEXT_ENCODER_2);
  ASSERT_EQ(text.size(), 1U);
  const auto with =
      changes(text, clip::text_parameters(config, "text_model", {.scan_layers = false}));
  const auto without = changes(text, clip::text_parameters(config, "", {.scan_layers = false}));
  EXPECT_EQ(with.size(), text[0].targets().size());
  ASSERT_EQ(with.size(), without.size());
  for (const auto& [key, values] : without) {
    EXPECT_EQ(values, with.at("text_model." + key)) << key;
  }
  EXPECT_TRUE(for_text(std::vector{adapter_of(io::golden("lora/flux_kohya.safetensors"))},
                       LoraMember::TEXT_ENCODER)
                  .empty());
}

// ---- Conversion ----------------------------------------------------------------------------

class LoraConversion : public testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(LoraConversion, AddsTheSameInEveryFormat) {
  const auto& [name, folder] = GetParam();
  const fs::path source = io::golden(std::string("lora/") + name + ".safetensors");
  const auto specs = specs_of(folder);
  const auto expected = changes({adapter_of(source)}, specs);
  const io::Scratch scratch;
  int number = 0;
  for (const LoraFormat to : {LoraFormat::DIFFUSERS, LoraFormat::KOHYA, LoraFormat::COMFYUI}) {
    const fs::path target = scratch / (std::to_string(number++) + ".safetensors");
    convert_lora(source, target, to);
    SCOPED_TRACE(target.string());
    expect_same(expected, changes({adapter_of(target)}, specs));
    for (const LoraMember text : {LoraMember::TEXT_ENCODER, LoraMember::TEXT_ENCODER_2}) {
      EXPECT_EQ(Lora::open(target).targets(text).size(), Lora::open(source).targets(text).size());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Files, LoraConversion,
                         testing::Values(std::pair{"flux_diffusers", "flux_dev/transformer"},
                                         std::pair{"flux_kohya", "flux_dev/transformer"},
                                         std::pair{"flux_original_all", "flux_dev/transformer"},
                                         std::pair{"flux_xlabs", "flux_dev/transformer"},
                                         std::pair{"sdxl_diffusers", "sdxl/unet"},
                                         std::pair{"sdxl_kohya", "sdxl/unet"},
                                         std::pair{"sdxl_kohya_conv", "sdxl/unet"},
                                         std::pair{"sdxl_diffusers_old", "sdxl/unet"}));

/// Only attention, and in one block only its queries and values: `linear1` and `qkv` are zero
/// elsewhere. Alphas differ in the second file, so they are merged into the factors.
TEST(LoraConversion, WritesSomeOfWhatTheOriginalJoinsAsZeros) {
  const auto specs = specs_of("flux_dev/transformer");
  const io::Scratch scratch;
  for (const bool alike : {true, false}) {
    std::map<std::string, HostArray> arrays;
    const auto add = [&](const std::string& module, uint64_t seed, float alpha) {
      arrays.emplace("transformer." + module + ".lora_A.weight", normal({2, 24}, seed));
      arrays.emplace("transformer." + module + ".lora_B.weight", normal({24, 2}, seed + 1));
      arrays.emplace("transformer." + module + ".alpha", HostArray::f32({}, std::span(&alpha, 1)));
    };
    add("transformer_blocks.1.attn.to_q", 1, 1);
    add("transformer_blocks.1.attn.to_v", 3, 1);
    add("single_transformer_blocks.0.attn.to_k", 5, 1);
    add("single_transformer_blocks.0.attn.to_v", 7, alike ? 1 : 4);
    std::vector<io::TensorEntry> entries;
    for (const auto& [name, array] : arrays) {
      entries.push_back(io::TensorEntry::of(name, array));
    }
    const fs::path source = scratch / (alike ? "alike.safetensors" : "apart.safetensors");
    io::write_safetensors(source, entries);
    const auto expected = changes({adapter_of(source)}, specs);
    for (const LoraFormat to : {LoraFormat::KOHYA, LoraFormat::COMFYUI}) {
      const fs::path joined =
          source.string() + (to == LoraFormat::KOHYA ? ".k" : ".c") + ".safetensors";
      const fs::path back = joined.string() + ".back.safetensors";
      convert_lora(source, joined, to);
      convert_lora(joined, back, LoraFormat::DIFFUSERS);
      // Zeros are changes too, for modules that the source does not contain.
      auto zeros = changes({adapter_of(joined)}, specs);
      EXPECT_EQ(zeros, changes({adapter_of(back)}, specs));
      EXPECT_EQ(zeros.size(), 7U);  // q, k, v; q, k, v and the feed-forward layer
      for (const auto& [key, values] : expected) {
        EXPECT_EQ(values, zeros.at(key)) << key;
        zeros.erase(key);
      }
      for (const auto& [key, values] : zeros) {
        EXPECT_EQ(std::ranges::count(values, 0.0F), static_cast<int64_t>(values.size())) << key;
      }
    }
    const auto file = io::SafetensorsFile::open(source.string() + ".k.safetensors");
    const std::string linear1 = "lora_unet_single_blocks_0_linear1";
    EXPECT_EQ(file.at(linear1 + ".lora_up.weight").shape.dims, (Dims{7 * 24, 4}));
    EXPECT_EQ(file.at(linear1 + ".lora_down.weight").shape.dims, (Dims{4, 24}));
    // alpha / rank is kept if it is common to all parts.
    EXPECT_EQ(file.at(linear1 + ".alpha").copy().as<float>()[0], alike ? 2 : 4);
  }
}

TEST(LoraConversion, RefusesToJoinModulesOfOtherSizes) {
  const io::Scratch scratch;
  std::vector<io::TensorEntry> entries;
  const HostArray down = normal({2, 24}, 1);
  const HostArray up = normal({20, 2}, 2);
  const std::string module = "transformer.single_transformer_blocks.0.attn.to_q";
  entries.push_back(io::TensorEntry::of(module + ".lora_A.weight", down));
  entries.push_back(io::TensorEntry::of(module + ".lora_B.weight", up));
  io::write_safetensors(scratch / "odd.safetensors", entries);
  EXPECT_THAT(
      [&] {
        convert_lora(scratch / "odd.safetensors", scratch / "x.safetensors", LoraFormat::KOHYA);
      },
      ThrowsMessage<Error>(AllOf(HasSubstr("single_transformer_blocks.0.attn.to_q"),
                                 HasSubstr("20 outputs, expected 24"))));
}

// diffusers does not recognise ComfyUI's own names of a UNet; both read kohya's.
TEST(LoraConversion, WritesUNetsForComfyUIInKohyasNames) {
  const io::Scratch scratch;
  const fs::path source = io::golden("lora/sdxl_diffusers.safetensors");
  convert_lora(source, scratch / "comfyui.safetensors", LoraFormat::COMFYUI);
  const auto file = io::SafetensorsFile::open(scratch / "comfyui.safetensors");
  for (const io::TensorView& tensor : file.tensors()) {
    EXPECT_TRUE(tensor.name.starts_with("lora_unet_") || tensor.name.starts_with("lora_te1_") ||
                tensor.name.starts_with("lora_te2_"))
        << tensor.name;
  }
}

TEST(LoraConversion, KeepsT5UnderTheNamesOfEachProgram) {
  const io::Scratch scratch;
  const HostArray down = normal({2, 24}, 1);
  const HostArray up = normal({24, 2}, 2);
  const std::string module = "encoder.block.0.layer.0.SelfAttention.v";
  const std::string clip = "text_model.encoder.layers.0.self_attn.q_proj";
  std::vector<io::TensorEntry> entries;
  for (const std::string& name : {"text_encoder_2." + module, "text_encoder." + clip,
                                  std::string("transformer.transformer_blocks.0.attn.to_out.0")}) {
    entries.push_back(io::TensorEntry::of(name + ".lora_A.weight", down));
    entries.push_back(io::TensorEntry::of(name + ".lora_B.weight", up));
  }
  io::write_safetensors(scratch / "a.safetensors", entries);
  for (const auto& [to, key] :
       {std::pair{LoraFormat::KOHYA,
                  "lora_te3_encoder_block_0_layer_0_SelfAttention_v.lora_up.weight"},
        std::pair{LoraFormat::COMFYUI,
                  "text_encoders.t5xxl.transformer.encoder.block.0.layer.0.SelfAttention.v."
                  "lora_up.weight"},
        std::pair{LoraFormat::DIFFUSERS,
                  "text_encoder_2.encoder.block.0.layer.0.SelfAttention.v.lora_B.weight"}}) {
    const fs::path file = scratch / (std::to_string(static_cast<int>(to)) + ".safetensors");
    convert_lora(scratch / "a.safetensors", file, to);
    EXPECT_EQ(io::SafetensorsFile::open(file).at(key).copy().bytes, up.bytes);
    EXPECT_EQ(Lora::open(file).targets(LoraMember::TEXT_ENCODER_2).count(module), 1U);
    EXPECT_EQ(Lora::open(file).targets(LoraMember::TEXT_ENCODER).size(), 1U);
  }
}

// PEFT matches a module by the end of its name: transformers 5 names CLIP's without `text_model.`.
TEST(LoraConversion, NamesModulesOfTextEncodersSoThatEveryTransformersFindsThem) {
  const io::Scratch scratch;
  convert_lora(io::golden("lora/sdxl_kohya.safetensors"), scratch / "diffusers.safetensors",
               LoraFormat::DIFFUSERS);
  const auto file = io::SafetensorsFile::open(scratch / "diffusers.safetensors");
  const io::Json about = io::Json::parse(file.metadata().at("lora_adapter_metadata"), "metadata");
  for (const char* part : {"text_encoder", "text_encoder_2"}) {
    const auto& modules = about.at(std::string(part) + ".target_modules").items();
    ASSERT_FALSE(modules.empty());
    EXPECT_TRUE(modules[0].as_string().starts_with("encoder.layers.0.")) << modules[0].as_string();
  }
}

// ---- Files that do not fit together --------------------------------------------------------

class HostileLora : public testing::Test {
 protected:
  void refuses(const std::map<std::string, Dims>& tensors, const std::string& expected) {
    std::map<std::string, HostArray> arrays;
    std::vector<io::TensorEntry> entries;
    for (const auto& [name, dims] : tensors) {
      const HostArray& array =
          arrays.emplace(name, HostArray(Shape{DType::F32, dims})).first->second;
      entries.push_back(io::TensorEntry::of(name, array));
    }
    io::write_safetensors(scratch_ / "bad.safetensors", entries);
    EXPECT_THAT([&] { Lora::open(scratch_ / "bad.safetensors"); },
                ThrowsMessage<Error>(AllOf(HasSubstr("bad.safetensors"), HasSubstr(expected))));
  }
  static std::map<std::string, Dims> pair(const std::string& module, Dims down, Dims up) {
    return {{"diffusion_model." + module + ".lora_down.weight", std::move(down)},
            {"diffusion_model." + module + ".lora_up.weight", std::move(up)}};
  }

  io::Scratch scratch_;
};

TEST_F(HostileLora, RowsThatDoNotDivide) {
  refuses(pair("double_blocks.0.img_attn.qkv", {2, 24}, {71, 2}), "3 parts");
}

TEST_F(HostileLora, LinearsThatAreTooSmall) {
  refuses(pair("single_blocks.0.linear1", {2, 24}, {72, 2}), "24 rows and more");
  refuses(pair("single_blocks.0.linear1", {2, 24, 1, 1}, {168, 2}), "no weight tells how");
}

TEST_F(HostileLora, HalvesThatAreNone) {
  refuses(pair("final_layer.adaLN_modulation.1", {2, 24}, {47, 2}), "two halves");
}

TEST_F(HostileLora, HalfAPairAndOtherRanks) {
  refuses({{"diffusion_model.double_blocks.0.img_attn.qkv.lora_up.weight", {72, 2}}},
          "no other half");
  refuses(pair("double_blocks.0.img_attn.qkv", {2, 24}, {72, 3}), "of one rank");
  refuses(pair("double_blocks.0.img_attn.qkv", {}, {72, 2}), "of one rank");
  refuses({{"diffusion_model.single_blocks.0.linear1.diff_b", {168}}}, "no weight tells how");
}

TEST_F(HostileLora, TwoKeysForOneModule) {
  auto tensors = pair("double_blocks.0.img_attn.qkv", {2, 24}, {72, 2});
  tensors.emplace("transformer.transformer_blocks.0.attn.to_q.lora_A.weight", Dims{2, 24});
  tensors.emplace("transformer.transformer_blocks.0.attn.to_q.lora_B.weight", Dims{24, 2});
  refuses(tensors, "are the same part of `transformer_blocks.0.attn.to_q`");
}

TEST_F(HostileLora, OtherMethods) {
  auto tensors = pair("double_blocks.0.img_attn.qkv", {2, 24}, {72, 2});
  tensors.emplace("diffusion_model.double_blocks.0.img_attn.qkv.dora_scale", Dims{71});
  refuses(tensors, "expected one norm for each of the weight's 72 rows");
  // The columns' norms depend on all rows, of which each of the three modules has a third.
  tensors.at("diffusion_model.double_blocks.0.img_attn.qkv.dora_scale") = Dims{1, 24};
  refuses(tensors, "changes 72 rows together, but 24 of them are `transformer_blocks.0.attn.to_q`");
  refuses({{"lora_unet_input_blocks_4_1_proj_in.hada_w1_a", {2, 2}}},
          "the module has no hada_w1_b");
  refuses({{"lora_unet_input_blocks_4_1_proj_in.lokr_w1", {2, 2}}}, "the module has no lokr_w2_a");
  refuses({{"lora_unet_input_blocks_4_1_proj_in.oft_blocks", {2, 2}}}, "expected square blocks");
  refuses({{"lora_unet_input_blocks_4_1_proj_in.oft_blocks", {40, 3, 2, 2}}}, "form a butterfly");
}

// Flux's original joins the queries, keys and values: each has its rows of the whole change.
TEST_F(HostileLora, JoinedModulesHaveTheirRowsOfAMethod) {
  const HostArray first_factor = normal({6, 4}, 1);
  const HostArray second_factor = normal({12, 6}, 2);
  io::write_safetensors(
      scratch_ / "joined.safetensors",
      std::vector<io::TensorEntry>{
          io::TensorEntry::of("lora_unet_double_blocks_0_img_attn_qkv.lokr_w1", first_factor),
          io::TensorEntry::of("lora_unet_double_blocks_0_img_attn_qkv.lokr_w2", second_factor)},
      {});
  const auto specs = specs_of("flux_dev/transformer");
  const Adapter adapter = adapter_of(scratch_ / "joined.safetensors");
  const Adapters adapters(std::span(&adapter, 1), specs);
  const auto w1 = first_factor.as<float>();
  const auto w2 = second_factor.as<float>();
  for (const auto& [module, first] :
       {std::pair("to_q", 0), std::pair("to_k", 24), std::pair("to_v", 48)}) {
    std::vector<float> values(size_t{24} * 24);
    adapters.add_to(fmt::format("transformer_blocks.0.attn.{}.weight", module), values);
    for (int row = 0; row < 24; ++row) {
      for (int column = 0; column < 24; ++column) {
        const int whole = first + row;  // 72 rows are 6 of w1 times 12 of w2
        EXPECT_FLOAT_EQ(values[static_cast<size_t>(row * 24 + column)],
                        w1[static_cast<size_t>(whole / 12 * 4 + column / 6)] *
                            w2[static_cast<size_t>(whole % 12 * 6 + column % 6)]);
      }
    }
  }
}

TEST(Lora, NamesAWholeModelAndAnAdapterOfAnotherType) {
  const io::Scratch scratch;
  EXPECT_THAT(
      [] { Lora::open(io::golden("flux_dev/transformer/diffusion_pytorch_model.safetensors")); },
      ThrowsMessage<Error>(AllOf(HasSubstr("is Flux"), HasSubstr("where a LoRA was expected"),
                                 HasSubstr("is taken by"))));
  const HostArray zeros(Shape{DType::F32, {2}});
  const std::vector<io::TensorEntry> entries{
      io::TensorEntry::of("base_model.model.x.hra_u", zeros)};
  io::write_safetensors(scratch / "adapter_model.safetensors", entries, {});
  io::write_file(scratch / "adapter_config.json", "{\"peft_type\": \"HRA\"}");
  EXPECT_THAT([&] { Lora::open(scratch.path()); },
              ThrowsMessage<Error>(HasSubstr("is an adapter of PEFT's type HRA")));
}

}  // namespace
}  // namespace kinema::weights
