#include "kinema/model_files/names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "io/scratch.h"
#include "kinema/core/error.h"
#include "kinema/io/model_folder.h"
#include "kinema/io/safetensors.h"

namespace kinema::model_files {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<std::string> keys_of(const std::string& folder) {
  const io::ModelFolder files = io::ModelFolder::open(io::golden(folder));
  std::vector<std::string> out;
  for (const io::TensorView* view : files.tensors()) {
    if (!view->name.ends_with("position_ids")) {  // a buffer, which originals do not have
      out.push_back(view->name);
    }
  }
  return out;
}

Layout layout_of_keys(const NameTable& table, const std::vector<std::string>& keys) {
  const std::vector<std::string_view> names(keys.begin(), keys.end());
  return layout_of(table, names);
}

/// Every key has an original one, which has the key among its pieces and, from the original's names
/// only, the same sizes. Returns the original's keys.
std::set<std::string> expect_round_trip(const NameTable& table, const std::string& folder) {
  const std::vector<std::string> keys = keys_of(folder);
  const Layout layout = layout_of_keys(table, keys);
  std::set<std::string> originals;
  for (const std::string& key : keys) {
    const auto original = original_key(table, key, layout);
    if (!original) {
      ADD_FAILURE() << key << " has no original name";
      continue;
    }
    originals.insert(original->name);
    const std::vector<Piece> pieces = diffusers_keys(table, original->name, layout);
    const auto found = std::ranges::find(pieces, key, &Piece::name);
    EXPECT_TRUE(found != pieces.end()) << key << " -> " << original->name;
    if (found != pieces.end()) {
      EXPECT_EQ(found->cut, original->cut) << key;
      EXPECT_EQ(found->part, original->part) << key;
    }
  }
  const std::vector<std::string> names(originals.begin(), originals.end());
  EXPECT_EQ(layout_of_keys(table, names), layout) << folder;
  return originals;
}

TEST(Names, OfEveryKeyOfFluxLeadBack) {
  const std::set<std::string> originals = expect_round_trip(kFluxNames, "flux_dev/transformer");
  EXPECT_TRUE(originals.contains("double_blocks.0.img_attn.qkv.bias"));
  EXPECT_TRUE(originals.contains("double_blocks.1.txt_attn.norm.key_norm.scale"));
  EXPECT_TRUE(originals.contains("single_blocks.1.linear1.weight"));
  EXPECT_TRUE(originals.contains("guidance_in.out_layer.weight"));
}

TEST(Names, OfEveryKeyOfAnimateAreThoseOfTheRelease) {
  const std::set<std::string> originals =
      expect_round_trip(kWanNames, "animate/wan22_animate/transformer");
  const auto file =
      io::SafetensorsFile::open(io::golden("animate/single/wan22_animate.safetensors"));
  std::set<std::string> released;
  for (const io::TensorView& tensor : file.tensors()) {
    if (!tensor.name.ends_with(".kernel")) {  // constants
      released.insert(tensor.name);
    }
  }
  EXPECT_EQ(originals, released);
}

TEST(Names, OfEveryKeyOfZImageLeadBack) {
  const std::set<std::string> originals =
      expect_round_trip(kZImageNames, "zimage/zimage_turbo/transformer");
  EXPECT_TRUE(originals.contains("layers.1.attention.qkv.weight"));
  EXPECT_TRUE(originals.contains("context_refiner.0.attention.q_norm.weight"));
  EXPECT_TRUE(originals.contains("final_layer.adaLN_modulation.1.bias"));
  EXPECT_TRUE(originals.contains("x_pad_token"));
}

TEST(Names, OfEveryKeyOfTheUNetLeadBack) {
  const std::set<std::string> originals = expect_round_trip(kUNetNames, "sdxl/unet");
  EXPECT_TRUE(originals.contains("label_emb.0.2.bias"));
  EXPECT_TRUE(originals.contains("middle_block.1.transformer_blocks.0.attn2.to_k.weight"));
}

TEST(Names, OfEveryKeyOfTheAutoencoderLeadBack) {
  const std::set<std::string> originals = expect_round_trip(kAutoencoderNames, "sdxl/vae");
  EXPECT_TRUE(originals.contains("decoder.up.0.block.2.nin_shortcut.weight") ||
              originals.contains("decoder.up.1.block.0.nin_shortcut.weight"));
  EXPECT_TRUE(originals.contains("encoder.mid.attn_1.proj_out.bias"));
}

TEST(Names, OfEveryKeyOfClipLeadBack) {
  const std::set<std::string> originals = expect_round_trip(kOpenClipNames, "sdxl/text_encoder_2");
  EXPECT_TRUE(originals.contains("transformer.resblocks.0.attn.in_proj_weight"));
  EXPECT_TRUE(originals.contains("positional_embedding"));
  EXPECT_TRUE(originals.contains("text_projection"));
}

TEST(Names, OfTheReleasedUNetAreCountedByLayers) {
  const std::map<std::string, std::string> expected{
      {"down_blocks.0.resnets.1.conv1", "input_blocks.2.0.in_layers.2"},
      {"down_blocks.0.downsamplers.0.conv", "input_blocks.3.0.op"},
      {"down_blocks.1.attentions.0.proj_in", "input_blocks.4.1.proj_in"},
      {"down_blocks.2.resnets.1.conv_shortcut", "input_blocks.8.0.skip_connection"},
      {"mid_block.resnets.1.time_emb_proj", "middle_block.2.emb_layers.1"},
      {"up_blocks.0.upsamplers.0.conv", "output_blocks.2.2.conv"},
      {"up_blocks.1.attentions.2.norm", "output_blocks.5.1.norm"},
      {"up_blocks.2.resnets.2.norm2", "output_blocks.8.0.out_layers.0"},
  };
  for (const auto& [diffusers, original] : expected) {
    EXPECT_EQ(original_module(kUNetNames, diffusers)->name, original);
    EXPECT_EQ(read_module(kUNetNames, original)->pieces.at(0).name, diffusers);
  }
  // With one layer per block a level has two input blocks.
  const Layout one{.layers_per_block = 1};
  EXPECT_EQ(read_module(kUNetNames, "input_blocks.2.0.op", Spelling::DOTS, one)->pieces.at(0).name,
            "down_blocks.0.downsamplers.0.conv");
  // After a block without attention the upsampler comes second.
  const Layout plain{.up_attention = {false}};
  EXPECT_EQ(original_module(kUNetNames, "up_blocks.0.upsamplers.0.conv", plain)->name,
            "output_blocks.2.1.conv");
}

TEST(Names, OfLevelsOfTheDecoderCountFromTheOtherEnd) {
  EXPECT_EQ(original_key(kAutoencoderNames, "decoder.up_blocks.0.resnets.0.conv1.weight")->name,
            "decoder.up.3.block.0.conv1.weight");
  EXPECT_EQ(original_key(kAutoencoderNames, "encoder.down_blocks.0.resnets.0.conv1.weight")->name,
            "encoder.down.0.block.0.conv1.weight");
  EXPECT_THAT(diffusers_keys(kAutoencoderNames, "decoder.up.4.block.0.conv1.weight"), IsEmpty());
}

TEST(Names, JoinedModulesHaveAllTheirPieces) {
  EXPECT_THAT(read_module(kFluxNames, "single_blocks.7.linear1")->pieces,
              ElementsAre(Piece{"single_transformer_blocks.7.attn.to_q", Cut::SQUARE, 0},
                          Piece{"single_transformer_blocks.7.attn.to_k", Cut::SQUARE, 1},
                          Piece{"single_transformer_blocks.7.attn.to_v", Cut::SQUARE, 2},
                          Piece{"single_transformer_blocks.7.proj_mlp", Cut::REST, 3}));
  EXPECT_THAT(
      read_module(kFluxNames, "double_blocks_0_txt_attn_qkv", Spelling::UNDERSCORES)->pieces,
      ElementsAre(Piece{"transformer_blocks.0.attn.add_q_proj", Cut::THIRD, 0},
                  Piece{"transformer_blocks.0.attn.add_k_proj", Cut::THIRD, 1},
                  Piece{"transformer_blocks.0.attn.add_v_proj", Cut::THIRD, 2}));
  EXPECT_THAT(read_module(kFluxNames, "final_layer.adaLN_modulation.1")->pieces,
              ElementsAre(Piece{"norm_out.linear", Cut::SWAPPED, 0}));
}

TEST(Names, OfNoModuleAreNotRead) {
  for (const char* name :
       {"", ".", "double_blocks", "double_blocks.", "double_blocks.0", "double_blocks.0.img_attn",
        "double_blocks.00.img_attn.qkv", "double_blocks.12345.img_attn.qkv",
        "double_blocks.-1.img_attn.qkv", "double_blocks.0.img_attn.qkv.weight",
        "double_blocks.0.img_attn.qkvx", "xdouble_blocks.0.img_attn.qkv"}) {
    EXPECT_EQ(read_module(kFluxNames, name), std::nullopt) << name;
  }
  for (const char* name : {"input_blocks.3.0.in_layers.0", "input_blocks.4.0.op",
                           "output_blocks.0.2.conv", "down_blocks.0.resnets.2.conv1.x"}) {
    EXPECT_EQ(read_module(kUNetNames, name), std::nullopt) << name;
  }
}

}  // namespace
}  // namespace kinema::model_files
