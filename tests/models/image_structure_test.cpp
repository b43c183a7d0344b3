#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "kinema/core/error.h"
#include "kinema/graph/emit.h"
#include "kinema/io/json.h"
#include "kinema/models/flux/config_file.h"
#include "kinema/models/flux/transformer.h"
#include "kinema/models/kl_autoencoder/coder.h"
#include "kinema/models/kl_autoencoder/config_file.h"
#include "kinema/models/qwen3/encoder.h"
#include "kinema/models/unet/config_file.h"
#include "kinema/models/unet/unet.h"
#include "kinema/models/zimage/config_file.h"
#include "kinema/models/zimage/control.h"
#include "kinema/models/zimage/transformer.h"

// The structure of the released image networks, without weights.
namespace kinema {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

struct Count {
  int64_t tensors = 0;
  int64_t parameters = 0;
  bool operator==(const Count&) const = default;
};

Count count(std::span<const nn::ParamSpec> specs) {
  Count out;
  for (const nn::ParamSpec& spec : specs) {
    out.tensors += spec.count();
    out.parameters += spec.shape.elements();
  }
  return out;
}

std::set<std::string> keys(std::span<const nn::ParamSpec> specs) {
  std::set<std::string> out;
  for (const nn::ParamSpec& spec : specs) {
    for (int64_t layer = 0; layer < spec.count(); ++layer) {
      out.insert(spec.key(layer));
    }
  }
  return out;
}

// Counts of diffusers' classes with the released configurations.
TEST(ImageStructure, CountsTheReleasedNetworks) {
  flux::TransformerConfig dev;
  EXPECT_EQ(count(flux::parameters(dev, {})), (Count{1160, 11'901'408'320}));
  dev.guidance_embeds = false;
  EXPECT_EQ(count(flux::parameters(dev, {})), (Count{1156, 11'891'178'560})) << "schnell";
  EXPECT_EQ(count(unet::parameters({}, {})), (Count{1680, 2'567'463'684}));
  EXPECT_EQ(count(zimage::parameters({}, {})), (Count{521, 6'154'908'736}));
}

TEST(ImageStructure, CountsTheReleasedLanguageModel) {
  std::vector<nn::ParamSpec> specs =
      qwen3::parameters({}, qwen3::EncoderOptions{.skipped_layers = 0});
  specs.push_back(qwen3::embedding_table({}));
  EXPECT_EQ(count(specs).parameters, 4'022'468'096);
  const Count read = count(qwen3::parameters({}, {}));
  EXPECT_EQ(read.tensors, 35 * 11) << "the last layer and the norm are not read";
}

TEST(ImageStructure, ZImageHasOneStackForEachKindOfBlock) {
  zimage::TransformerConfig config;
  EXPECT_EQ(zimage::parse_config(zimage::config_json(config)), config);
  std::set<std::string> stacks;
  nn::ModelOptions unrolled;
  unrolled.scan_layers = false;
  for (const nn::ParamSpec& spec : zimage::parameters(config, {})) {
    if (spec.layers > 0) {
      stacks.insert(spec.name.substr(0, spec.name.find('.')));
    }
  }
  EXPECT_EQ(stacks, (std::set<std::string>{"context_refiner", "layers", "noise_refiner"}));
  EXPECT_EQ(keys(zimage::parameters(config, {})), keys(zimage::parameters(config, unrolled)));
}

TEST(ImageStructure, ZImageRefusesSizesThatDoNotFit) {
  zimage::TransformerConfig config;
  config.axes_dims = {32, 48, 40};
  EXPECT_THAT([&] { zimage::validate(config); },
              ThrowsMessage<Error>(HasSubstr("`axes_dims` adds up to 120")));
  config = {};
  config.n_heads = 31;
  EXPECT_THAT([&] { zimage::validate(config); },
              ThrowsMessage<Error>(HasSubstr("must be a multiple of `n_heads`")));
  io::Json omni = zimage::config_json({});
  omni.set("siglip_feat_dim", int64_t{1152});
  EXPECT_THAT([&] { zimage::parse_config(omni); }, ThrowsMessage<Error>(HasSubstr("Omni")));
}

// Counts of diffusers' class with the configurations of the published files.
TEST(ImageStructure, CountsTheControlNetsOfZImage) {
  const auto of = [](const zimage::ControlConfig& control) {
    zimage::TransformerConfig config;
    const Count alone = count(zimage::parameters(config, {}));
    config.control = control;
    zimage::validate(control, config);
    EXPECT_EQ(zimage::parse_control_config(
                  [&] {
                    io::Json json = zimage::control_config_json(control);
                    json.set("dim", config.dim);
                    json.set("n_heads", config.n_heads);
                    return json;
                  }(),
                  config),
              control);
    const Count both = count(zimage::parameters(config, {}));
    return Count{both.tensors - alone.tensors, both.parameters - alone.parameters};
  };
  std::vector<int64_t> every_second;
  for (int64_t i = 0; i < 30; i += 2) {
    every_second.push_back(i);
  }
  constexpr int64_t kBlock = 3840 * (4 * 3840 + 3 * 10240) + 15360 * 257 + 4 * 3840 + 2 * 128;
  constexpr int64_t kProjection = 3840 * 3840 + 3840;
  const auto embedder = [](int64_t channels) { return 3840 * (4 * channels + 1); };
  EXPECT_EQ(of({.control_layers_places = {0, 5, 10, 15, 20, 25}}),
            (Count{2 + 8 * 15 + 7 * 2, embedder(16) + 8 * kBlock + 7 * kProjection}));
  EXPECT_EQ(of({.control_in_dim = 33,
                .control_layers_places = every_second,
                .control_refiner_layers_places = {0, 1},
                .n_refiner_layers = 0}),
            (Count{2 + 15 * 15 + 16 * 2, embedder(33) + 15 * kBlock + 16 * kProjection}));
  EXPECT_EQ(of({.control_in_dim = 33,
                .control_layers_places = every_second,
                .control_refiner_layers_places = {0, 1}}),
            (Count{2 + 17 * 15 + 19 * 2, embedder(33) + 17 * kBlock + 19 * kProjection}));
}

TEST(ImageStructure, ZImagesControlNetsFitTheirTransformer) {
  const auto refuses = [](const zimage::ControlConfig& control, const std::string& words) {
    EXPECT_THAT([&] { zimage::validate(control, zimage::TransformerConfig()); },
                ThrowsMessage<Error>(HasSubstr(words)));
  };
  refuses({.control_in_dim = 17, .control_layers_places = {0}}, "takes 17 channels");
  refuses({}, "`control_layers_places` must rise from 0 to at most 29");
  refuses({.control_layers_places = {0, 30}}, "`control_layers_places` must rise");
  refuses({.control_layers_places = {0}, .control_refiner_layers_places = {0, 2}},
          "`control_refiner_layers_places` must rise from 0 to at most 1");
  refuses({.control_layers_places = {0}, .n_refiner_layers = 3}, "has 3 refiner layers");
  refuses({.control_layers_places = {0},
           .control_refiner_layers_places = {0, 1},
           .n_refiner_layers = 0},
          "but 1 blocks give hints");
}

TEST(ImageStructure, CountsTheReleasedAutoencoders) {
  const auto both = [](const kl_autoencoder::AutoencoderConfig& config) {
    const Count encoder = count(kl_autoencoder::encoder_parameters(config, {}));
    const Count decoder = count(kl_autoencoder::decoder_parameters(config, {}));
    return Count{encoder.tensors + decoder.tensors, encoder.parameters + decoder.parameters};
  };
  EXPECT_EQ(both({}), (Count{248, 83'653'863})) << "SDXL";
  EXPECT_EQ(both({.latent_channels = 16, .use_quant_conv = false, .use_post_quant_conv = false}),
            (Count{244, 83'819'683}))
      << "Flux";
}

/// The UNet of stable-diffusion-v1-5.
unet::UNetConfig stable_diffusion_1() {
  return {.block_out_channels = {320, 640, 1280, 1280},
          .cross_attention = {true, true, true, false},
          .transformer_layers_per_block = {1, 1, 1, 1},
          .num_attention_heads = {8, 8, 8, 8},
          .cross_attention_dim = 768,
          .addition_time_embed_dim = 0,
          .projection_class_embeddings_input_dim = 0,
          .use_linear_projection = false,
          .sample_size = 64};
}

/// The UNet of stable-diffusion-2-1.
unet::UNetConfig stable_diffusion_2() {
  unet::UNetConfig out = stable_diffusion_1();
  out.num_attention_heads = {5, 10, 20, 20};
  out.cross_attention_dim = 1024;
  out.use_linear_projection = true;
  out.sample_size = 96;
  return out;
}

TEST(ImageStructure, OfStableDiffusion1And2IsThatOfTheReleasedModels) {
  EXPECT_EQ(count(unet::parameters(stable_diffusion_1(), {})), (Count{686, 859'520'964}));
  EXPECT_EQ(count(unet::parameters(stable_diffusion_2(), {})), (Count{686, 865'910'724}));
}

TEST(ImageStructure, HasTheSameTensorsWithAndWithoutScan) {
  nn::ModelOptions unrolled;
  unrolled.scan_layers = false;
  EXPECT_EQ(keys(flux::parameters({}, {})), keys(flux::parameters({}, unrolled)));
  EXPECT_EQ(keys(unet::parameters({}, {})), keys(unet::parameters({}, unrolled)));
  for (const flux::TransformerConfig& one_kind :
       {flux::TransformerConfig{.num_layers = 0},
        flux::TransformerConfig{.num_single_layers = 0}}) {
    EXPECT_EQ(keys(flux::parameters(one_kind, {})), keys(flux::parameters(one_kind, unrolled)));
  }
}

TEST(ImageStructure, ReadsBackTheConfigurationsThatItWrites) {
  const flux::TransformerConfig flux_config{.num_layers = 2, .guidance_embeds = false};
  EXPECT_EQ(flux::parse_config(io::Json::parse(flux::config_json(flux_config).dump(), "c.json")),
            flux_config);
  const unet::UNetConfig unet_config{.layers_per_block = 3, .sample_size = 64};
  EXPECT_EQ(unet::parse_config(io::Json::parse(unet::config_json(unet_config).dump(), "c.json")),
            unet_config);
  for (const unet::UNetConfig& each : {stable_diffusion_1(), stable_diffusion_2()}) {
    EXPECT_EQ(unet::parse_config(io::Json::parse(unet::config_json(each).dump(), "c.json")), each);
  }
  const kl_autoencoder::AutoencoderConfig vae{.latent_channels = 16, .shift_factor = 0.1159};
  EXPECT_EQ(kl_autoencoder::parse_config(
                io::Json::parse(kl_autoencoder::config_json(vae).dump(), "c.json")),
            vae);
}

TEST(ImageStructure, RefusesUNetsOfOtherModels) {
  io::Json config = unet::config_json({});
  config.set("addition_embed_type", "image");
  EXPECT_THAT([&] { unet::parse_config(io::Json::parse(config.dump(), "c.json")); },
              ThrowsMessage<Error>(HasSubstr("expected `text_time` (Stable Diffusion XL)")));
}

TEST(ImageStructure, NamesSizesThatCannotBe) {
  EXPECT_THAT([] { flux::validate({.num_layers = int64_t{1} << 60}); },
              ThrowsMessage<Error>(HasSubstr("`num_layers`")));
  EXPECT_THAT(
      [] {
        flux::validate({.axes_dims_rope = {16, 56, 54}});
      },
      ThrowsMessage<Error>(HasSubstr("`attention_head_dim`")));
  EXPECT_THAT(
      [] {
        unet::validate({.num_attention_heads = {5, 10, 21}});
      },
      ThrowsMessage<Error>(HasSubstr("heads")));
  EXPECT_THAT([] { kl_autoencoder::validate({.norm_num_groups = 48}); },
              ThrowsMessage<Error>(HasSubstr("`norm_num_groups`")));
}

/// Characters of the forward pass's program with `blocks` single blocks.
size_t program_size(int64_t blocks) {
  const flux::TransformerConfig config{.in_channels = 16,
                                       .out_channels = 16,
                                       .num_layers = 2,
                                       .num_single_layers = blocks,
                                       .num_attention_heads = 2,
                                       .attention_head_dim = 8,
                                       .joint_attention_dim = 8,
                                       .pooled_projection_dim = 4,
                                       .guidance_embeds = false,
                                       .axes_dims_rope = {2, 2, 4}};
  Graph graph;
  std::vector<Tensor> params;
  for (const nn::ParamSpec& spec : flux::parameters(config, {})) {
    params.push_back(graph.input(spec.shape, spec.name));
  }
  const Tensor y = flux::transformer(params, config, {},
                                     {.latents = graph.input({DType::F32, {1, 4, 4, 4}}),
                                      .timestep = graph.input({DType::F32, {1}}),
                                      .text = graph.input({DType::F32, {1, 3, 8}}),
                                      .pooled = graph.input({DType::F32, {1, 4}})})
                       .velocity;
  const std::vector<Tensor> outputs{y};
  return emit(graph, outputs, {}).size();
}

TEST(ImageStructure, ProgramsDoNotGrowWithTheirBlocks) {
  const auto few = static_cast<double>(program_size(3));
  const auto many = static_cast<double>(program_size(30));
  EXPECT_LT(many / few, 1.02) << "only numbers of layers get longer";
}

}  // namespace
}  // namespace kinema
