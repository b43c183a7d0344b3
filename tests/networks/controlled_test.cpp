#include "kinema/networks/controlled.h"
#include "kinema/networks/inner_model.h"

#include <gmock/gmock.h>

#include <set>
#include <string>

#include "kinema/core/error.h"
#include "kinema/graph/graph.h"
#include "kinema/models/unet/config_file.h"
#include "kinema/models/unet/controlnet.h"
#include "kinema/networks/open.h"

namespace kinema::networks {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

unet::UNetConfig tiny_unet(int64_t text = 6) {
  return {.block_out_channels = {4, 8},
          .cross_attention = {false, true},
          .transformer_layers_per_block = {1, 1},
          .num_attention_heads = {1, 2},
          .layers_per_block = 1,
          .cross_attention_dim = text,
          .addition_time_embed_dim = 2,
          .projection_class_embeddings_input_dim = 15,
          .norm_num_groups = 2};
}

unet::ControlNetConfig tiny_control(int64_t kinds = 0) {
  unet::ControlNetConfig out{.encoder = tiny_unet(),
                             .conditioning_embedding_out_channels = {2, 4, 4, 6}};
  if (kinds > 0) {
    out.num_control_type = kinds;
    out.num_trans_channel = 4;
    out.num_trans_head = 2;
    out.num_trans_layer = 1;
  }
  return out;
}

Network network_of(const unet::UNetConfig& config) {
  return from_config(io::Json::parse(unet::config_json(config).dump(), "config.json"));
}
ControlNet control_of(const unet::ControlNetConfig& config) {
  return control_from_config(io::Json::parse(unet::config_json(config).dump(), "config.json"));
}

std::vector<Tensor> inputs_of(Graph& graph, const Network& network) {
  std::vector<Tensor> out;
  for (const nn::ParamSpec& spec : network->parameters({})) {
    out.push_back(graph.input(spec.shape, spec.name));
  }
  return out;
}

Inputs batch_of(Graph& graph, int64_t b) {
  const auto input = [&](const char* name, Dims dims) {
    return graph.input({DType::F32, std::move(dims)}, name);
  };
  return {.latents = input("latents", {b, 4, 1, 4, 6}),
          .timestep = input("timestep", {b}),
          .text = input("text", {b, 7, 6}),
          .pooled = input("pooled", {b, 3}),
          .size_ids = input("size_ids", {b, 6})};
}

TEST(Controlled, IsOneNetworkOfItsModels) {
  const Network base = network_of(tiny_unet());
  const Network two = controlled(
      base, {{.network = control_of(tiny_control())}, {.network = control_of(tiny_control())}});
  const std::vector<ModelSpecs> models = by_model(two->parameters({}));
  ASSERT_EQ(models.size(), 3);
  EXPECT_EQ(models[0].specs.size(), base->parameters({}).size());
  EXPECT_EQ(models[1].specs.size(), control_of(tiny_control())->parameters({}).size());
  EXPECT_EQ(models[1].part, "controlnet");
  EXPECT_EQ(models[2].part, "controlnet_1");
  std::set<std::string> names;
  for (const nn::ParamSpec& spec : models[2].specs) {
    names.insert(spec.name);
  }
  EXPECT_TRUE(names.contains("controlnet_cond_embedding.blocks.5.weight"));
  EXPECT_TRUE(names.contains("controlnet_down_blocks.3.bias"));
  ASSERT_EQ(two.sizes().named.size(), 1);
  EXPECT_EQ(two.sizes().named[0].channels, 6);
  EXPECT_EQ(two.sizes().control_layers, 2);
  EXPECT_EQ(two.sizes().named[0].cell, 8);
  EXPECT_FALSE(two == base);
  EXPECT_TRUE(two == controlled(base, {{.network = control_of(tiny_control())},
                                       {.network = control_of(tiny_control())}}));
  EXPECT_GT(two->forward_flops({4, 1, 4, 6}, 7), base->forward_flops({4, 1, 4, 6}, 7));
  EXPECT_EQ(two->cross_key_values({}, 2, 7, 0).size(),
            base->cross_key_values({}, 2, 7, 0).size() + 4 * 2);
}

int64_t elements(const std::vector<nn::ParamSpec>& specs) {
  int64_t out = 0;
  for (const nn::ParamSpec& spec : specs) {
    out += spec.shape.elements();
  }
  return out;
}

// Counts of diffusers' class with the released configurations.
TEST(Controlled, CountsTheReleasedControlNets) {
  EXPECT_EQ(elements(control_of({})->parameters({})), 1'251'014'160) << "XL";
  const unet::UNetConfig of_1_5 = unet::parse_config(*released_config("stable-diffusion-v1-5"));
  EXPECT_EQ(elements(control_of({.encoder = of_1_5})->parameters({})), 361'279'120) << "1.5";
}

TEST(Controlled, TrainsItsControlNetsAlone) {
  std::vector<nn::ParamSpec> specs =
      controlled(network_of(tiny_unet()), {{.network = control_of(tiny_control())}})
          ->parameters({});
  freeze_controlled(specs);
  for (const nn::ParamSpec& spec : specs) {
    EXPECT_EQ(spec.trained, spec.name.starts_with("controlnet.")) << spec.name;
  }
  std::vector<nn::ParamSpec> plain = network_of(tiny_unet())->parameters({});
  freeze_controlled(plain);
  EXPECT_TRUE(std::ranges::all_of(plain, &nn::ParamSpec::trained));
}

TEST(Controlled, TakesPicturesOfAllSamplesOrOfTheFirst) {
  const Network network =
      controlled(network_of(tiny_unet()), {{.network = control_of(tiny_control())}});
  Graph graph;
  const std::vector<Tensor> params = inputs_of(graph, network);
  Inputs in = batch_of(graph, 2);
  const auto picture = [&](Dims dims) {
    return graph.input({DType::F32, std::move(dims)}, "control");
  };
  EXPECT_EQ(network->forward(params, {}, in).prediction.shape().dims, Dims({2, 4, 1, 4, 6}));
  for (const int64_t rows : {1, 2}) {
    in.control = picture({rows, 3, 1, 32, 48});
    EXPECT_EQ(network->forward(params, {}, in).prediction.shape().dims, Dims({2, 4, 1, 4, 6}));
  }
  in.control = picture({3, 3, 1, 32, 48});
  EXPECT_THAT([&] { network->forward(params, {}, in); },
              ThrowsMessage<Error>(HasSubstr("the control pictures are")));
  in.control = picture({2, 3, 1, 4, 6});
  EXPECT_THAT([&] { network->forward(params, {}, in); },
              ThrowsMessage<Error>(HasSubstr("expected [2,3,1,32,48]")));
}

TEST(Controlled, TakesSeveralPicturesOfAUnionControlNet) {
  const ControlNet made = control_of(tiny_control(/*kinds=*/6));
  EXPECT_EQ(made->types(), 6);
  const Network network = controlled(network_of(tiny_unet()), {{made, {3, 0}}});
  EXPECT_EQ(network.sizes().named.at(0).channels, 6);
  EXPECT_EQ(network.sizes().control_layers, 2);
  Graph graph;
  const std::vector<Tensor> params = inputs_of(graph, network);
  Inputs in = batch_of(graph, 1);
  in.control = graph.input({DType::F32, {1, 6, 1, 32, 48}}, "control");
  EXPECT_EQ(network->forward(params, {}, in).prediction.shape().dims, Dims({1, 4, 1, 4, 6}));
  EXPECT_FALSE(network == controlled(network_of(tiny_unet()), {{made, {0, 3}}}));
  const Network other = controlled(network_of(tiny_unet()), {{made, {6}}});
  in.control = graph.input({DType::F32, {1, 3, 1, 32, 48}}, "control");
  EXPECT_THAT([&] { other->forward(inputs_of(graph, other), {}, in); },
              ThrowsMessage<Error>(HasSubstr("kinds 0 to 5")));
}

TEST(Controlled, RefusesAControlNetOfAnotherFamily) {
  unet::ControlNetConfig of_1_5 = tiny_control();
  of_1_5.encoder.addition_time_embed_dim = 0;
  of_1_5.encoder.projection_class_embeddings_input_dim = 0;
  EXPECT_THAT([&] { controlled(network_of(tiny_unet()), {{.network = control_of(of_1_5)}}); },
              ThrowsMessage<Error>(AllOf(HasSubstr("the ControlNet is for a network with 4 latent"),
                                         HasSubstr("of their own kind"))));
  EXPECT_THAT(
      [&] { controlled(network_of(tiny_unet(8)), {{.network = control_of(tiny_control())}}); },
      ThrowsMessage<Error>(HasSubstr("text states of 8")));
  EXPECT_THAT(
      [&] {
        controlled(network_of(tiny_unet()), {{control_of(tiny_control()), {0, 0}}});
      },
      ThrowsMessage<Error>(HasSubstr("2 pictures are given to one ControlNet")));
}

TEST(Controlled, ReadsAndWritesConfigurations) {
  for (const int64_t kinds : {0, 6}) {
    unet::ControlNetConfig config = tiny_control(kinds);
    config.is_bgr = true;
    config.global_pool_conditions = true;
    config.encoder.out_channels = config.encoder.in_channels;
    config.encoder.sample_size = unet::UNetConfig().sample_size;
    EXPECT_EQ(unet::parse_controlnet_config(
                  io::Json::parse(unet::config_json(config).dump(), "config.json")),
              config);
  }
  io::Json other = unet::config_json(tiny_control());
  other.set("controlnet_conditioning_channel_order", "gbr");
  EXPECT_THAT([&] { control_from_config(io::Json::parse(other.dump(), "config.json")); },
              ThrowsMessage<Error>(HasSubstr("is `gbr`, expected rgb or bgr")));
  io::Json unknown = unet::config_json(tiny_control());
  unknown.set("colour", 1);
  EXPECT_THAT([&] { control_from_config(io::Json::parse(unknown.dump(), "config.json")); },
              ThrowsMessage<Error>(HasSubstr("is not a key of a ControlNet")));
}

}  // namespace
}  // namespace kinema::networks
