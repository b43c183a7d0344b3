#include "kinema/weights/convert_lora.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "arrays.h"
#include "io/scratch.h"
#include "kinema/core/error.h"
#include "kinema/io/json.h"
#include "kinema/io/safetensors.h"
#include "kinema/weights/lora.h"

namespace kinema::weights {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

using Tensors = std::map<std::string, HostArray>;

void write(const fs::path& path, const Tensors& tensors,
           const std::map<std::string, std::string>& metadata = {}) {
  std::vector<io::TensorEntry> entries;
  for (const auto& [name, array] : tensors) {
    entries.push_back(io::TensorEntry::of(name, array));
  }
  io::write_safetensors(path, entries, metadata);
}

HostArray number(float value) { return HostArray::f32({}, std::span(&value, 1)); }

/// Products with and without an alpha, a bias, a head outside the blocks.
Tensors products() {
  return {{"diffusion_model.blocks.0.self_attn.q.lora_down.weight", normal({4, 8}, 1)},
          {"diffusion_model.blocks.0.self_attn.q.lora_up.weight", normal({6, 4}, 2)},
          {"diffusion_model.blocks.0.self_attn.q.alpha", number(2)},
          {"diffusion_model.blocks.1.ffn.2.lora_down.weight", normal({2, 8}, 3)},
          {"diffusion_model.blocks.1.ffn.2.lora_up.weight", normal({6, 2}, 4)},
          {"diffusion_model.head.head.lora_down.weight", normal({3, 8}, 5)},
          {"diffusion_model.head.head.lora_up.weight", normal({5, 3}, 6)},
          {"diffusion_model.head.head.lora_up.bias", normal({5}, 7)},
          {"diffusion_model.head.head.alpha", number(0.3F)}};
}

/// The change of a module's bias.
std::vector<float> bias_of(const Lora::Target& target) {
  const io::TensorView* view = target.up_bias != nullptr ? target.up_bias : target.diff_bias;
  if (view == nullptr) {
    return {};
  }
  const HostArray values = convert(view->copy(), DType::F32);
  std::vector<float> out(values.as<float>().begin(), values.as<float>().end());
  for (float& each : out) {
    each *= target.up_bias != nullptr ? static_cast<float>(target.factor) : 1.0F;
  }
  return out;
}

/// The same tensors and factors under the same modules. Other programs' formats have no bias that
/// alpha scales, so it is scaled in the file.
void expect_same(const fs::path& a, const fs::path& b) {
  const Lora first = Lora::open(a);
  const Lora second = Lora::open(b);
  for (int64_t expert = 0; expert < 2; ++expert) {
    ASSERT_EQ(first.targets(expert).size(), second.targets(expert).size());
    for (const auto& each : first.targets(expert)) {
      const auto& module = each.first;
      const Lora::Target& target = each.second;
      ASSERT_TRUE(second.targets(expert).contains(module)) << module;
      const Lora::Target& other = second.targets(expert).find(module)->second;
      const auto same = [&](const io::TensorView* x, const io::TensorView* y) {
        ASSERT_EQ(x == nullptr, y == nullptr) << module;
        if (x != nullptr) {
          EXPECT_EQ(x->shape, y->shape) << module;
          EXPECT_EQ(x->copy().bytes, y->copy().bytes) << module;
        }
      };
      same(target.down, other.down);
      same(target.up, other.up);
      same(target.diff, other.diff);
      EXPECT_EQ(bias_of(target), bias_of(other)) << module;
      EXPECT_EQ(target.factor, other.factor) << module;
    }
  }
}

TEST(ConvertLora, EveryFormatGivesTheSameDifferencesBack) {
  const io::Scratch scratch;
  const auto at = [&](const std::string& name) { return scratch / (name + ".safetensors"); };
  write(at("given"), products());
  convert_lora(at("given"), at("diffusers"), LoraFormat::DIFFUSERS);
  convert_lora(at("diffusers"), at("kohya"), LoraFormat::KOHYA);
  convert_lora(at("kohya"), at("original"), LoraFormat::ORIGINAL);
  convert_lora(at("original"), at("comfyui"), LoraFormat::COMFYUI);
  for (const char* each : {"diffusers", "kohya", "original", "comfyui"}) {
    SCOPED_TRACE(each);
    expect_same(at("given"), at(each));
  }
}

// Readers of kohya's files require an alpha for each module.
TEST(ConvertLora, KohyaHasAnAlphaOfEachModule) {
  const io::Scratch scratch;
  write(scratch / "given.safetensors", products());
  convert_lora(scratch / "given.safetensors", scratch / "kohya.safetensors", LoraFormat::KOHYA);

  const auto kohya = io::SafetensorsFile::open(scratch / "kohya.safetensors");
  int64_t modules = 0;
  for (const io::TensorView& tensor : kohya.tensors()) {
    const size_t end = tensor.name.find(".lora_down.weight");
    if (end != std::string::npos) {
      EXPECT_NE(kohya.find(tensor.name.substr(0, end) + ".alpha"), nullptr) << tensor.name;
      ++modules;
    }
  }
  EXPECT_GT(modules, 0);
}

TEST(ConvertLora, AlphasOfMetadataBecomeKeysWhereTheFormatHasThem) {
  const io::Scratch scratch;
  const fs::path given = io::golden("lora/adapter.safetensors");
  convert_lora(given, scratch / "kohya.safetensors", LoraFormat::KOHYA);

  const auto kohya = io::SafetensorsFile::open(scratch / "kohya.safetensors");
  const auto alpha = [&](const char* module) {
    return kohya.at(std::string(module) + ".alpha").copy().as<float>()[0];
  };
  EXPECT_EQ(alpha("lora_unet_blocks_0_ffn_2"), 8);
  EXPECT_EQ(alpha("lora_unet_blocks_0_self_attn_q"), 3);
  EXPECT_EQ(alpha("lora_unet_blocks_1_self_attn_q"), 2);
  EXPECT_EQ(alpha("lora_unet_blocks_0_cross_attn_k"), 5);
  expect_same(given, scratch / "kohya.safetensors");
}

TEST(ConvertLora, BiasesAreDifferencesWhereReadersKnowNoOthers) {
  const io::Scratch scratch;
  write(scratch / "given.safetensors", products());
  for (const LoraFormat to : {LoraFormat::KOHYA, LoraFormat::COMFYUI}) {
    const fs::path made = scratch / (to == LoraFormat::KOHYA ? "a.safetensors" : "b.safetensors");
    convert_lora(scratch / "given.safetensors", made, to);
    const auto file = io::SafetensorsFile::open(made);
    const std::string module =
        to == LoraFormat::KOHYA ? "lora_unet_head_head" : "diffusion_model.head.head";
    EXPECT_EQ(file.find(module + ".lora_up.bias"), nullptr);
    const HostArray bias = file.at(module + ".diff_b").copy();
    const HostArray given = products().at("diffusion_model.head.head.lora_up.bias");
    for (size_t i = 0; i < 5; ++i) {
      EXPECT_FLOAT_EQ(bias.as<float>()[i], 0.1F * given.as<float>()[i]);  // alpha 0.3 of rank 3
    }
  }
}

TEST(ConvertLora, NamesAreThoseOfTheOtherProgram) {
  const io::Scratch scratch;
  const auto to = [&](const std::string& name) {
    const fs::path path = scratch / (name + ".safetensors");
    convert_lora(scratch / "given.safetensors", path, lora_format_from_string(name));
    return io::SafetensorsFile::open(path);
  };
  write(scratch / "given.safetensors", products());
  const io::SafetensorsFile diffusers = to("diffusers");
  EXPECT_NE(diffusers.find("transformer.blocks.0.attn1.to_q.lora_A.weight"), nullptr);
  EXPECT_NE(diffusers.find("transformer.proj_out.lora_B.bias"), nullptr);
  EXPECT_EQ(diffusers.find("transformer.blocks.0.attn1.to_q.alpha"), nullptr);
  const io::Json about =
      io::Json::parse(diffusers.metadata().at("lora_adapter_metadata"), "metadata");
  EXPECT_EQ(about.at("transformer.r").as_int(), 4);
  EXPECT_EQ(about.at("transformer.lora_alpha").as_number(), 2);
  EXPECT_EQ(about.at("transformer.rank_pattern").at("blocks.1.ffn.net.2").as_int(), 2);
  EXPECT_EQ(about.at("transformer.alpha_pattern").at("proj_out").as_number(), 0.3F);
  EXPECT_NE(to("kohya").find("lora_unet_blocks_0_self_attn_q.lora_down.weight"), nullptr);
  EXPECT_NE(to("comfyui").find("diffusion_model.blocks.1.ffn.2.lora_up.weight"), nullptr);
  EXPECT_NE(to("original").find("blocks.1.ffn.2.lora_B.weight"), nullptr);
}

TEST(ConvertLora, WholeDifferencesGoWhereThereAreNamesForThem) {
  const io::Scratch scratch;
  Tensors tensors = products();
  tensors.emplace("diffusion_model.blocks.0.norm3.diff", normal({8}, 8));
  tensors.emplace("diffusion_model.blocks.0.norm3.diff_b", normal({8}, 9));
  tensors.emplace("diffusion_model.blocks.0.modulation.diff", normal({1, 6, 8}, 10));
  write(scratch / "given.safetensors", tensors);
  convert_lora(scratch / "given.safetensors", scratch / "kohya.safetensors", LoraFormat::KOHYA);
  expect_same(scratch / "given.safetensors", scratch / "kohya.safetensors");
  EXPECT_THAT(
      [&] {
        convert_lora(scratch / "given.safetensors", scratch / "x.safetensors",
                     LoraFormat::DIFFUSERS);
      },
      ThrowsMessage<Error>(AllOf(HasSubstr("difference of a whole"), HasSubstr("--to comfyui"))));
  EXPECT_FALSE(fs::exists(scratch / "x.safetensors"));
}

TEST(ConvertLora, OtherMethodsKeepTheirTensors) {
  const io::Scratch scratch;
  const std::string q = "lora_unet_blocks_0_self_attn_q.";
  const std::string k = "lora_unet_blocks_0_self_attn_k.";
  write(scratch / "given.safetensors", {{q + "hada_w1_a", normal({6, 2}, 1)},
                                        {q + "hada_w1_b", normal({2, 8}, 2)},
                                        {q + "hada_w2_a", normal({6, 2}, 3)},
                                        {q + "hada_w2_b", normal({2, 8}, 4)},
                                        {q + "alpha", number(1)},
                                        {k + "lokr_w1", normal({2, 2}, 5)},
                                        {k + "lokr_w2", normal({3, 4}, 6)}});
  convert_lora(scratch / "given.safetensors", scratch / "comfyui.safetensors", LoraFormat::COMFYUI);
  const auto comfyui = io::SafetensorsFile::open(scratch / "comfyui.safetensors");
  EXPECT_EQ(comfyui.tensors().size(), 8U);
  EXPECT_NE(comfyui.find("diffusion_model.blocks.0.self_attn.k.alpha"), nullptr);  // for LyCORIS
  EXPECT_EQ(comfyui.at("diffusion_model.blocks.0.self_attn.q.hada_w2_b").copy().bytes,
            normal({2, 8}, 4).bytes);
  EXPECT_EQ(comfyui.at("diffusion_model.blocks.0.self_attn.k.lokr_w2").copy().bytes,
            normal({3, 4}, 6).bytes);
  EXPECT_THAT(
      [&] {
        convert_lora(scratch / "given.safetensors", scratch / "x.safetensors",
                     LoraFormat::DIFFUSERS);
      },
      ThrowsMessage<Error>(AllOf(HasSubstr("which LoRA files of diffusers do not hold"),
                                 HasSubstr("--to comfyui"))));
}

TEST(ConvertLora, NormsOfDoraAreThoseOfTheOtherProgram) {
  const io::Scratch scratch;
  const std::string q = "lora_unet_blocks_0_self_attn_q.";
  write(scratch / "given.safetensors", {{q + "lora_down.weight", normal({2, 8}, 1)},
                                        {q + "lora_up.weight", normal({6, 2}, 2)},
                                        {q + "alpha", number(3)},
                                        {q + "dora_scale", normal({6, 1}, 3)}});
  convert_lora(scratch / "given.safetensors", scratch / "diffusers.safetensors",
               LoraFormat::DIFFUSERS);
  convert_lora(scratch / "diffusers.safetensors", scratch / "kohya.safetensors", LoraFormat::KOHYA);
  const auto diffusers = io::SafetensorsFile::open(scratch / "diffusers.safetensors");
  EXPECT_EQ(diffusers.at("transformer.blocks.0.attn1.to_q.lora_magnitude_vector").shape.dims,
            Dims{6});
  const io::Json about =
      io::Json::parse(diffusers.metadata().at("lora_adapter_metadata"), "metadata");
  EXPECT_TRUE(about.at("transformer.use_dora").as_bool());
  EXPECT_EQ(about.at("transformer.lora_alpha").as_number(), 3);
  const auto kohya = io::SafetensorsFile::open(scratch / "kohya.safetensors");
  EXPECT_EQ(kohya.at(q + "dora_scale").shape.dims, (Dims{6, 1}));
  EXPECT_EQ(kohya.at(q + "dora_scale").copy().bytes, normal({6, 1}, 3).bytes);
  EXPECT_EQ(kohya.at(q + "alpha").copy().as<float>()[0], 3);
}

TEST(ConvertLora, BothExpertsStayTogetherInDiffusersNamesOnly) {
  const io::Scratch scratch;
  write(scratch / "two.safetensors",
        {{"transformer.blocks.0.attn1.to_q.lora_A.weight", normal({4, 8}, 1)},
         {"transformer.blocks.0.attn1.to_q.lora_B.weight", normal({6, 4}, 2)},
         {"transformer_2.blocks.0.attn1.to_q.lora_A.weight", normal({2, 8}, 3)},
         {"transformer_2.blocks.0.attn1.to_q.lora_B.weight", normal({6, 2}, 4)}},
        {{"lora_adapter_metadata", R"({"transformer_2.lora_alpha": 3})"}});
  convert_lora(scratch / "two.safetensors", scratch / "copy.safetensors", LoraFormat::DIFFUSERS);
  expect_same(scratch / "two.safetensors", scratch / "copy.safetensors");
  EXPECT_THAT(
      [&] {
        convert_lora(scratch / "two.safetensors", scratch / "x.safetensors", LoraFormat::COMFYUI);
      },
      ThrowsMessage<Error>(HasSubstr("both experts")));
}

TEST(ConvertLora, RoundsToTheDtypeAskedFor) {
  const io::Scratch scratch;
  write(scratch / "given.safetensors", products());
  convert_lora(scratch / "given.safetensors", scratch / "half.safetensors", LoraFormat::KOHYA,
               DType::BF16);
  const auto file = io::SafetensorsFile::open(scratch / "half.safetensors");
  EXPECT_EQ(file.at("lora_unet_blocks_0_self_attn_q.lora_up.weight").copy().bytes,
            convert(normal({6, 4}, 2), DType::BF16).bytes);
}

TEST(ConvertLora, RefusesFormatsThatWouldLoseData) {
  const io::Scratch scratch;
  Tensors tensors = products();
  tensors.emplace("lora_te_layer_0.alpha", number(1));
  write(scratch / "more.safetensors", tensors);
  const auto convert = [&](const char* target) {
    return [&scratch, target] {
      convert_lora(scratch / "more.safetensors", scratch / target, LoraFormat::COMFYUI);
    };
  };
  EXPECT_THAT(convert("x.safetensors"), ThrowsMessage<Error>(HasSubstr("lora_te_layer_0.alpha")));
  write(scratch / "more.safetensors", products());
  EXPECT_THAT(convert("folder"), ThrowsMessage<Error>(HasSubstr("must end with")));
  EXPECT_THAT(convert("more.safetensors"), ThrowsMessage<Error>(HasSubstr("exists already")));
  EXPECT_THAT([] { lora_format_from_string("gguf"); },
              ThrowsMessage<Error>(HasSubstr("comfyui or kohya")));
}

}  // namespace
}  // namespace kinema::weights
