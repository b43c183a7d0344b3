#include "kinema/networks/network.h"

#include <gmock/gmock.h>

#include <set>

#include "io/scratch.h"
#include "kinema/core/error.h"
#include "kinema/graph/graph.h"
#include "kinema/io/safetensors.h"
#include "kinema/networks/check_path.h"
#include "kinema/networks/open.h"
#include "networks/wan.h"

namespace kinema::networks {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

wan::TransformerConfig tiny(bool image = false) {
  wan::TransformerConfig c{.num_attention_heads = 2,
                           .attention_head_dim = 12,
                           .in_channels = image ? 12 : 4,
                           .out_channels = 4,
                           .text_dim = 6,
                           .freq_dim = 8,
                           .ffn_dim = 16,
                           .num_layers = 3};
  if (image) {
    c.image_dim = 10;
    c.added_kv_proj_dim = c.dim();
  }
  return c;
}

std::vector<Tensor> parameter_inputs(Graph& graph, const Network& network) {
  std::vector<Tensor> out;
  for (const nn::ParamSpec& spec : network->parameters({})) {
    out.push_back(graph.input(spec.shape, spec.name));
  }
  return out;
}

TEST(Networks, AreEqualWhereTheirConfigurationsAre) {
  wan::TransformerConfig other = tiny();
  other.eps = 1e-5;
  EXPECT_EQ(network_of(tiny()), network_of(tiny()));
  EXPECT_FALSE(network_of(tiny()) == network_of(other));
  EXPECT_EQ(from_config(network_of(tiny(true))->config()), network_of(tiny(true)));
}

TEST(Networks, DescribeTheirInputs) {
  const Sizes text = network_of(tiny()).sizes();
  EXPECT_EQ(text.condition_channels(), 0);
  EXPECT_EQ(text.text_tokens, 0) << "any number";
  EXPECT_EQ(text.image_tokens, 0);
  EXPECT_EQ(text.width, 24);
  EXPECT_EQ(text.tokens({4, 5, 8, 6}), 5 * 4 * 3);

  wan::TransformerConfig between = tiny(true);
  const Sizes image = network_of(between).sizes();
  EXPECT_EQ(image.condition_channels(), 8);
  EXPECT_EQ(image.text_tokens, 512);
  EXPECT_EQ(image.image_tokens, 257);
  EXPECT_FALSE(image.takes_last_image);
  between.pos_embed_seq_len = 514;
  EXPECT_EQ(network_of(between).sizes().image_tokens, 514) << "two images";
  EXPECT_TRUE(network_of(between).sizes().takes_last_image);
}

/// Reused values have the declared shapes.
TEST(Networks, ReturnTheDeclaredValues) {
  const Network network = network_of(tiny(true));
  const Sizes& sizes = network.sizes();
  const nn::ModelOptions options;
  constexpr int64_t kBatch = 2;
  const Dims latents{kBatch, sizes.in_channels, 1, 4, 6};
  Graph graph;
  const std::vector<Tensor> params = parameter_inputs(graph, network);
  const auto input = [&](Dims dims, const char* name) {
    return graph.input({DType::F32, std::move(dims)}, name);
  };
  const Tensor text = input({kBatch, 5, sizes.text_dim}, "text");
  const Tensor image = input({kBatch, 7, sizes.image_dim}, "image");
  const std::vector<Tensor> keys = network->cross_keys(params, options, text, image);
  const std::vector<Value> said = network->cross_key_values(options, kBatch, 5, 7);
  ASSERT_EQ(keys.size(), said.size());
  std::set<std::string> names;
  for (size_t i = 0; i < keys.size(); ++i) {
    EXPECT_EQ(keys[i].shape(), said[i].shape) << said[i].name;
    names.insert(said[i].name);
  }
  EXPECT_EQ(names.size(), keys.size());

  Inputs inputs{.latents = input(latents, "latents"), .timestep = input({kBatch}, "timestep")};
  inputs.cross_keys = keys;
  const Outputs out = network->forward(params, options, inputs);
  EXPECT_THAT(out.prediction.shape().dims, ElementsAre(kBatch, sizes.out_channels, 1, 4, 6));
  EXPECT_EQ(out.block_sum.shape(), network->block_sum_value(options, kBatch, latents).shape);

  inputs.cross_keys.pop_back();
  EXPECT_THAT([&] { network->forward(params, options, inputs); },
              ThrowsMessage<Error>(HasSubstr("3 tensors are given as keys and values")));
}

TEST(Networks, OfReleasedModelsAreKnownByName) {
  const auto sizes = [](const char* name) { return from_config(*released_config(name)).sizes(); };
  EXPECT_EQ(from_config(default_config()), network_of({}));
  EXPECT_EQ(sizes("Wan-AI/Wan2.1-T2V-1.3B-Diffusers").width, 1536);
  EXPECT_EQ(sizes("Wan-AI/Wan2.1-T2V-14B-Diffusers").num_layers, 40);
  EXPECT_EQ(sizes("Wan-AI/Wan2.2-TI2V-5B-Diffusers").out_channels, 48);
  EXPECT_EQ(sizes("Wan-AI/Wan2.1-I2V-14B-720P-Diffusers").image_tokens, 257);
  EXPECT_EQ(sizes("Wan-AI/Wan2.2-I2V-A14B-Diffusers").image_tokens, 0);
  EXPECT_EQ(sizes("Wan-AI/Wan2.2-I2V-A14B-Diffusers").condition_channels(), 20);
  EXPECT_EQ(sizes("Wan-AI/Wan2.1-FLF2V-14B-720P-diffusers").image_tokens, 514);
  EXPECT_NE(find_entry(sizes("Wan-AI/Wan2.2-Animate-14B-Diffusers").named, Entry::FACES), nullptr);
  EXPECT_FALSE(released_config("stabilityai/sdxl").has_value());
}

TEST(Networks, AreReadFromFolders) {
  const Network network = open(io::golden("wan21_i2v/transformer"));
  EXPECT_GT(network.sizes().image_dim, 0);
  EXPECT_EQ(network, open(model_files::Checkpoint::open(io::golden("wan21_i2v/transformer"))));
  EXPECT_THAT([] { from_config(io::Json::parse(R"({"_class_name": "UNet"})", "config.json")); },
              ThrowsMessage<Error>(HasSubstr(
                  "`UNet`, expected WanTransformer3DModel or FluxTransformer2DModel or ")));
}

TEST(Networks, RefuseUnsupportedOptionsOfTheirConfigurations) {
  io::Json flux = open(io::golden("flux_dev/transformer"))->config();
  flux.set("quantization_config", io::Json::object({{"quant_method", "bitsandbytes"}}));
  EXPECT_THAT([&] { from_config(flux); },
              ThrowsMessage<Error>(AllOf(HasSubstr("quantized by \"bitsandbytes\""),
                                         HasSubstr("use the model without quantization"))));
  io::Json unet = open(io::golden("sdxl/unet"))->config();
  unet.set("mid_block_scale_factor", 1);
  EXPECT_NO_THROW(from_config(unet));
  unet.set("mid_block_scale_factor", 2);
  EXPECT_THAT([&] { from_config(unet); },
              ThrowsMessage<Error>(HasSubstr("mid_block_scale_factor")));
}

/// training_tflops is this per sample, times three and the batch.
TEST(Networks, CountTheirOperations) {
  const double once = network_of(tiny())->forward_flops({4, 1, 4, 4}, 5);
  wan::TransformerConfig deeper = tiny();
  deeper.num_layers *= 2;
  EXPECT_DOUBLE_EQ(network_of(deeper)->forward_flops({4, 1, 4, 4}, 5), 2 * once);
}

TEST(Networks, SayWhereTapsLookInTheNamesOfTheirCheckpoints) {
  EXPECT_EQ(network_of(tiny())->key_of_tap("block3.attn1"), "blocks.3.attn1");
  EXPECT_EQ(network_of(tiny())->key_of_tap("rope_cos"), "rope_cos");
  const Network flux = open(io::golden("flux_dev/transformer"));
  EXPECT_EQ(flux->key_of_tap("double0.hidden"), "transformer_blocks.0.hidden");
  EXPECT_EQ(flux->key_of_tap("single12"), "single_transformer_blocks.12");
  const Network unet = open(io::golden("sdxl/unet"));
  EXPECT_EQ(unet->key_of_tap("down1.attention0.block2"),
            "down_blocks.1.attentions.0.transformer_blocks.2");
  EXPECT_EQ(unet->key_of_tap("mid.resnet1.norm1"), "mid_block.resnets.1.norm1");
  EXPECT_EQ(unet->key_of_tap(""), "");
}

TEST(CheckLora, RefusesBiasesThatLayersDoNotHave) {
  const io::Scratch scratch;
  const auto write = [&](const std::string& module) {
    std::vector<io::TensorEntry> entries;
    const std::string name = "base_model.model." + module;
    for (const auto& [ending, dims] :
         {std::pair{".lora_A.weight", Dims{2, 8}}, std::pair{".lora_B.weight", Dims{8, 2}},
          std::pair{".lora_B.bias", Dims{8}}}) {
      entries.push_back(io::TensorEntry::lazy(name + ending, {DType::F32, dims}, [dims = dims] {
        return HostArray(Shape{DType::F32, dims});
      }));
    }
    io::write_safetensors(scratch / "lora.safetensors", entries);
    return scratch / "lora.safetensors";
  };
  const std::string unet = "unet.down_blocks.1.attentions.0.transformer_blocks.0.attn1.";
  EXPECT_THAT([&] { check_lora(write(unet + "to_q")); },
              testing::ThrowsMessage<Error>(testing::HasSubstr(
                  "lora_B.bias` changes the bias of `down_blocks.1.attentions.0.transformer_blocks."
                  "0.attn1.to_q`, which has none in Stable Diffusion XL")));
  EXPECT_NO_THROW(check_lora(write(unet + "to_out.0")));
  EXPECT_NO_THROW(check_lora(write("transformer.blocks.0.attn1.to_q")));
}

}  // namespace
}  // namespace kinema::networks
